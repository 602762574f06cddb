// Runs a fuzz target without libFuzzer: first the corpus, then random variations of it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using generator = std::minstd_rand;

std::vector<std::string> read_folder(const char* folder) {
    std::set<std::filesystem::path> files;  // in an order that does not depend on the disk
    for (const auto& file : std::filesystem::directory_iterator(folder)) files.insert(file.path());
    std::vector<std::string> all{""};
    for (const auto& file : files) {
        std::ifstream in(file, std::ios::binary);
        all.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    return all;
}

std::string varied(std::string text, const std::vector<std::string>& all, generator& random) {
    for (unsigned long changes = 1 + random() % 6; changes > 0; --changes) {
        std::size_t at = random() % (text.size() + 1);
        const std::string& other = all[random() % all.size()];
        switch (random() % 4) {
            case 0: text.insert(at, 1, static_cast<char>(random() % 256)); break;
            case 1: text.erase(at, 1 + random() % 4); break;
            case 2:
                text.insert(at, other.substr(random() % (other.size() + 1), random() % 32));
                break;
            default:
                if (at < text.size()) text[at] = static_cast<char>(random() % 256);
        }
    }
    return text;
}

void run(const std::string& text) {
    const void* bytes = text.data();
    static_cast<void>(LLVMFuzzerTestOneInput(static_cast<const std::uint8_t*>(bytes), text.size()));
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return std::fputs("usage: fuzz_name RUNS CORPUS\n", stderr), 2;
    std::vector<std::string> all = read_folder(arguments[2]);
    for (const std::string& each : all) run(each);
    generator random(20240517);
    long runs = std::strtol(arguments[1], nullptr, 10);
    for (long i = 0; i < runs; ++i) run(varied(all[random() % all.size()], all, random));
    std::printf("%ld runs\n", runs);
    return 0;
}
