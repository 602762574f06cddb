// A database file for one test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace support {

/// In a folder of its own, which is removed with it.
class sqlite_file {
public:
    sqlite_file() : folder_(std::filesystem::temp_directory_path() / "cenote-sqlite-XXXXXX") {
        std::string name = folder_.string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        folder_ = name;
    }
    ~sqlite_file() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    sqlite_file(const sqlite_file&) = delete;
    sqlite_file& operator=(const sqlite_file&) = delete;

    std::filesystem::path folder() const { return folder_; }
    std::string path() const { return folder_ / "test.db"; }
    std::string url(const std::string& parameters = "") const {
        return "sqlite:" + path() + parameters;
    }

private:
    std::filesystem::path folder_;
};

}  // namespace support
