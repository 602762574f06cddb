// 13: a pool of libcurl easy handles, each of which keeps its connections open.
#include <cstdio>
#include <curl/curl.h>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include <cenote/pool.hpp>

namespace {

using handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

struct curl_connector {
    handle open() {
        handle made(curl_easy_init(), &curl_easy_cleanup);
        if (made == nullptr) throw std::bad_alloc();
        return made;
    }
    /// Clears all options of the last user; connections, cookies and the DNS cache stay.
    void before_acquire(handle& h) { curl_easy_reset(h.get()); }
};

std::size_t collect(char* data, std::size_t size, std::size_t count, void* into) {
    static_cast<std::string*>(into)->append(data, size * count);
    return size * count;
}

std::string get(handle& h, const std::string& url) {
    std::string body;
    curl_easy_setopt(h.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(h.get(), CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(h.get(), CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(h.get(), CURLOPT_TIMEOUT_MS, 5000L);
    CURLcode code = curl_easy_perform(h.get());
    if (code != CURLE_OK) throw std::runtime_error(curl_easy_strerror(code));
    return body;
}

}  // namespace

int main(int argc, char** argv) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    {
        cenote::pool<handle> pool{curl_connector{}, {.max = 4}};
        std::string url = argc > 1 ? argv[1] : "file:///proc/self/comm";
        std::string body = pool.with([&](handle& h) { return get(h, url); });
        std::printf("%zu bytes from %s\n", body.size(), url.c_str());
    }
    curl_global_cleanup();
}
