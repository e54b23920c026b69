// SPDX-License-Identifier: Apache-2.0
#include "text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 18;

[[noreturn]] void throw_file_error(std::string_view kind, const char* verb,
                                   const std::string& path) {
  throw UserError(
      fmt::format("{} {}: it cannot be {}: {}.", kind, path, verb, std::strerror(errno)));
}

/// An open file that closes itself. close() is for writers, who must hear of a late error.
class File {
 public:
  File(const std::string& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  [[nodiscard]] ssize_t read(char* memory, std::size_t size) const {
    for (;;) {
      const ssize_t got = ::read(number_, memory, size);
      if (got >= 0 || errno != EINTR) return got;
    }
  }
  [[nodiscard]] bool write_all(std::string_view data) const {
    while (!data.empty()) {
      const ssize_t put = ::write(number_, data.data(), data.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return false;
      data.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
  }
  [[nodiscard]] bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

bool write_all(const std::string& path, std::string_view data) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  return file.is_open() && file.write_all(data) && file.close();
}

bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

}  // namespace

std::string read_file(const std::string& path, std::string_view kind, Bytes most) {
  const File file(path, O_RDONLY);
  if (!file.is_open()) throw_file_error(kind, "read", path);
  std::string contents;
  std::vector<char> chunk(kChunk);
  for (;;) {
    const ssize_t got = file.read(chunk.data(), chunk.size());
    if (got < 0) throw_file_error(kind, "read", path);
    if (got == 0) return contents;
    contents.append(chunk.data(), static_cast<std::size_t>(got));
    if (Bytes{contents.size()} > most) {
      throw UserError(fmt::format("{} {}: it is longer than {}.", kind, path, to_string(most)));
    }
  }
}

void write_file(const std::string& path, std::string_view kind, std::string_view data) {
  if (is_special(path)) {
    if (!write_all(path, data)) throw_file_error(kind, "written", path);
    return;
  }
  const std::string partial = fmt::format("{}.{}.partial", path, ::getpid());
  if (!write_all(partial, data) || ::rename(partial.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(partial.c_str());
    errno = error;
    throw_file_error(kind, "written", path);
  }
}

}  // namespace spillway
