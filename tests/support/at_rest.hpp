// Detects when the processes of a test have nothing left to do.
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

/// Whether no thread of a process is runnable, except the caller. A thread that waits for a
/// processor is runnable.
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

/// Waits until all threads of this process and of `others` were asleep in five checks in a row, for
/// at most one second, because polling threads never sleep for long. For tests that stop the clock:
/// they advance it when the effects of the last advance are complete.
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
