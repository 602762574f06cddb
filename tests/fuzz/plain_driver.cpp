// A fuzzer for where there is no libFuzzer: the corpus as it is, then so many variations of it.
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

using dice = std::minstd_rand;

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

std::string varied(std::string text, const std::vector<std::string>& all, dice& d) {
    for (unsigned long changes = 1 + d() % 6; changes > 0; --changes) {
        std::size_t at = d() % (text.size() + 1);
        const std::string& other = all[d() % all.size()];
        switch (d() % 4) {
            case 0: text.insert(at, 1, static_cast<char>(d() % 256)); break;
            case 1: text.erase(at, 1 + d() % 4); break;
            case 2: text.insert(at, other.substr(d() % (other.size() + 1), d() % 32)); break;
            default:
                if (at < text.size()) text[at] = static_cast<char>(d() % 256);
        }
    }
    return text;
}

void run(const std::string& text) {
    const void* bytes = text.data();
    static_cast<void>(LLVMFuzzerTestOneInput(static_cast<const std::uint8_t*>(bytes), text.size()));
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) return std::fputs("usage: fuzz_name RUNS CORPUS\n", stderr), 2;
    std::vector<std::string> all = read_folder(words[2]);
    for (const std::string& each : all) run(each);
    dice d(20240517);
    long runs = std::strtol(words[1], nullptr, 10);
    for (long i = 0; i < runs; ++i) run(varied(all[d() % all.size()], all, d));
    std::printf("%ld runs\n", runs);
    return 0;
}
