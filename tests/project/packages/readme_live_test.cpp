// The program of the README: copied from the page, compiled against the installed packages, run.
#include <fstream>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "support/real_server.hpp"
#include "support/warded_process.hpp"

namespace {

using namespace std::chrono_literals;

/// The text of the first block of C++ on a page.
std::string program_on(const std::string& page) {
    const std::string text = support::content_of(page), fence = "```cpp\n";
    std::size_t begin = text.find(fence);
    if (begin == std::string::npos) throw std::runtime_error(page + " has no program");
    begin += fence.size();
    return text.substr(begin, text.find("```", begin) - begin);
}

TEST(readme, its_program_runs_as_it_stands) {
    support::temporary_folder folder("readme", "-");
    const std::string source = folder.path() / "app.cpp", program = folder.path() / "app";
    std::ofstream(source) << program_on(CENOTE_README);
    support::run("-", {CENOTE_COMPILE, CENOTE_INSTALLED, source, program, "cenote_postgres"},
                 folder, 5min);

    support::postgres_server postgres;
    EXPECT_EQ(
        support::run("-", {program, support::app_url("postgresql", postgres.port())}, folder, 5min),
        "1 squared is 1\n2 squared is 4\n3 squared is 9\n");
}

}  // namespace
