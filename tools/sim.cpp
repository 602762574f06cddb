// cenote-sim: runs simulated worlds from seeds, replays one, shrinks a run that fails.
#include "sim_runs.hpp"

int main(int argc, char** argv) {
    sim_options::settings s;
    if (auto status = sim_options::read(argc, argv, s)) return *status;
    return sim_runs::run(s);
}
