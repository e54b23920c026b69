// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/output_path.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

[[noreturn]] void throw_not_writable(std::string_view what, const std::string& path,
                                     std::string_view why) {
  throw UserError(fmt::format("{}: {} cannot be written: {}. Name another file.", what, path, why));
}

}  // namespace

int new_file_error(const std::string& directory) {
  int file = ::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL)) {
    std::string name = directory + "/.spillway-XXXXXX";
    file = ::mkostemp(name.data(), O_CLOEXEC);
    if (file >= 0) ::unlink(name.c_str());
  }
  if (file < 0) return errno;
  ::close(file);
  return 0;
}

void require_writable(const std::string& path, std::string_view what) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) throw_not_writable(what, path, "it is a directory");
    if (::access(path.c_str(), W_OK) != 0) throw_not_writable(what, path, std::strerror(errno));
    if (!S_ISREG(status.st_mode)) return;  // a pipe or a device
  } else if (errno != ENOENT) {
    throw_not_writable(what, path, std::strerror(errno));
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string directory = parent.empty() ? "." : parent;
  if (::stat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    throw_not_writable(what, path, fmt::format("there is no directory {}", directory));
  }
  const int error = new_file_error(directory);
  if (error == 0) return;
  throw_not_writable(what, path,
                     error == ENOENT
                         ? fmt::format("the file system of {} takes no new files", directory)
                         : fmt::format("{}: {}", directory, std::strerror(error)));
}

}  // namespace spillway
