// Whether everything has come to rest that a test has set in motion.
#pragma once

#include <dirent.h>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <string>
#include <sys/types.h>
#include <unistd.h>

#include "support/patience.hpp"

namespace support {

/// Whether no thread of a process runs or wants to; the caller does not count. On a busy machine a
/// thread that has something to do waits for a processor, and wants to run all that time.
inline bool all_sleep(pid_t process) {
    std::string tasks = "/proc/" + std::to_string(process) + "/task/";
    std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(tasks.c_str()), &::closedir);
    if (!folder) return true;  // it has ended
    while (const dirent* each = ::readdir(folder.get())) {
        std::string name = each->d_name;
        if (name.starts_with('.') || name == std::to_string(::gettid())) continue;
        std::string stat;
        std::getline(std::ifstream(tasks + name + "/stat"), stat);
        std::size_t end = stat.rfind(") ");  // of the program's name
        if (end != std::string::npos && stat[end + 2] == 'R') return false;
    }
    return true;
}

/// Waits until this process and `others` have been seen at rest five times in a row, for a second
/// at most: threads that poll are never at rest for long. For tests that stop the clock: time may
/// pass when what it has brought about so far is done.
inline void come_to_rest(std::initializer_list<pid_t> others) {
    int in_a_row = 0;
    eventually(
        [&] {
            bool rests = all_sleep(::getpid());
            for (pid_t each : others) rests = rests && all_sleep(each);
            in_a_row = rests ? in_a_row + 1 : 0;
            return in_a_row == 5;
        },
        std::chrono::seconds{1});
}

}  // namespace support
