// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor_checks.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "machine/disk_speed.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/device/cuda_library.hpp"
#include "spillway/runtime/memory/page_pool.hpp"
#include "spillway/runtime/transfer/transfers.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

// The kernel's default; the arena stitches pages, and each stitched run is a mapping of its own.
constexpr std::uint64_t kLeastMapCount = 65530;
constexpr Bytes kSpeedFile = kMiB * 256;
// Below this a spool is full after a few storages.
constexpr Bytes kLittleSpace = kGiB * 4;
// A training step moves gigabytes: a slower disk makes steps take many times as long.
constexpr double kSlowDisk = 200e6;

std::optional<Bytes> soft_limit(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return Bytes{limit.rlim_cur};
}

Finding page_pool_finding() {
  const std::string& obstacle = runtime::PagePool::why_not();
  if (obstacle.empty()) {
    return {"pages", Verdict::kOk, "page pool: pages move between tensors, none is zeroed anew",
            ""};
  }
  return {"pages", Verdict::kWarning, "plain arena: " + obstacle,
          "Training is slower by what page faults cost. See docs/memory.md."};
}

Finding io_uring_finding() {
  const std::string refusal = runtime::io_uring_refusal();
  if (refusal.empty()) return {"io_uring", Verdict::kOk, "available: transfers use it", ""};
  // Containers commonly forbid it. Reads and writes from several threads reach nearly the same.
  return {"io_uring", Verdict::kOk, fmt::format("{}; transfers use threads instead", refusal), ""};
}

struct FileSystem {
  std::uint64_t magic;
  std::string_view name;
  std::string_view complaint;  ///< why a spool should not lie there
};

constexpr std::string_view kInMemory =
    "It lies in memory, which is what the spool is to save. Name a directory on a disk with "
    "--spool-dir or SPILLWAY_SPOOL_DIR.";
constexpr std::string_view kOverNetwork =
    "It is reached over a network or through another process, which is slow. Name a directory on "
    "a local disk with --spool-dir or SPILLWAY_SPOOL_DIR.";

// Numbers from linux/magic.h and statfs(2).
constexpr std::array<FileSystem, 12> kFileSystems{{
    {0x01021994, "tmpfs", kInMemory},
    {0x858458f6, "ramfs", kInMemory},
    {0xef53, "ext4", ""},
    {0x58465342, "xfs", ""},
    {0x9123683e, "btrfs", ""},
    {0xf2f52010, "f2fs", ""},
    {0x2fc12fc1, "zfs", ""},
    {0x794c7630, "overlay", ""},
    {0x6969, "nfs", kOverNetwork},
    {0xff534d42, "cifs", kOverNetwork},
    {0x01021997, "9p", kOverNetwork},
    {0x65735546, "fuse", kOverNetwork},
}};

Finding file_system_finding(const std::string& directory, const struct statfs& status) {
  const auto magic = static_cast<std::uint64_t>(status.f_type) & 0xffffffffU;
  const auto* known = std::find_if(kFileSystems.begin(), kFileSystems.end(),
                                   [&](const FileSystem& system) { return system.magic == magic; });
  if (known == kFileSystems.end()) {
    return {"spool", Verdict::kOk, fmt::format("{} (file system {:#x})", directory, magic), ""};
  }
  return {"spool", known->complaint.empty() ? Verdict::kOk : Verdict::kWarning,
          fmt::format("{} ({})", directory, known->name), std::string(known->complaint)};
}

Finding space_finding(Bytes free) {
  Finding finding{"free space", Verdict::kOk, short_bytes(free), ""};
  if (free < kLittleSpace) {
    finding.verdict = Verdict::kWarning;
    finding.remedy = "The spool may need as much as the program needs above its budget.";
  }
  return finding;
}

std::vector<Finding> speed_findings(const DiskSpeed& speed) {
  std::vector<Finding> findings;
  if (speed.direct_io) {
    findings.push_back({"direct I/O", Verdict::kOk, "works", ""});
  } else {
    findings.push_back({"direct I/O", Verdict::kWarning, "does not work here",
                        "Spilled bytes pass through the page cache, which takes memory and time. "
                        "ext4 and xfs on a local disk allow it."});
  }
  const auto rate = [&](const char* topic, double value) {
    Finding finding{topic, Verdict::kOk, short_rate(value), ""};
    if (value < kSlowDisk) {
      finding.verdict = Verdict::kWarning;
      finding.remedy =
          "Steps will wait for this disk. Name a faster one with --spool-dir, or raise the budget.";
    }
    return finding;
  };
  findings.push_back(rate("disk write", speed.write_rate));
  findings.push_back(rate("disk read", speed.read_rate));
  return findings;
}

// Not by its name from an index: there `spillway` may be anything.
constexpr std::string_view kHowToInstall =
    "In the folder of Spillway's source, with this Python's environment active:\n"
    "pip install -r requirements/build.txt\n"
    "pip install --no-build-isolation .";
constexpr std::string_view kHowToChoosePython =
    "Activate the environment that you train in and run spillway doctor again.";

Finding package_finding(const PythonFacts& python) {
  if (python.spillway.empty()) {
    return {"package", Verdict::kFailed, "spillway is not installed in this Python",
            std::string(kHowToInstall)};
  }
  std::string lacking;
  if (!python.torch.empty() && !python.has_adapter) lacking = "torch";
  if (!python.tensorflow.empty() && !python.has_plugin) {
    lacking += lacking.empty() ? "tensorflow" : " and tensorflow";
  }
  if (lacking.empty()) {
    return {"package", Verdict::kOk, fmt::format("spillway {}", python.spillway), ""};
  }
  const bool serves_one = python.has_adapter || python.has_plugin;
  return {"package", serves_one ? Verdict::kWarning : Verdict::kFailed,
          fmt::format("spillway {} was not built for the {} here", python.spillway, lacking),
          std::string(kHowToInstall)};
}

// Beside a framework that works, another one that does not is no failure.
Finding framework_finding(std::string_view name, const std::string& version, bool is_supported,
                          std::string_view supported, bool other_works) {
  if (is_supported) return {std::string(name), Verdict::kOk, version, ""};
  return {std::string(name), other_works ? Verdict::kWarning : Verdict::kFailed,
          fmt::format("{} is not supported", version),
          fmt::format("Spillway works with {} {}.", name, supported)};
}

std::vector<Finding> framework_findings(const PythonFacts& python) {
  std::vector<Finding> findings;
  if (!python.torch.empty()) {
    findings.push_back(framework_finding("torch", python.torch, is_supported_torch(python.torch),
                                         kSupportedTorch, python.has_plugin));
  }
  if (!python.tensorflow.empty()) {
    findings.push_back(framework_finding("tensorflow", python.tensorflow,
                                         is_supported_tensorflow(python.tensorflow),
                                         kSupportedTensorflow, python.has_adapter));
  }
  if (!findings.empty()) return findings;
  return {{"framework", Verdict::kFailed, "neither torch nor tensorflow is in this Python",
           fmt::format("Install torch {} or tensorflow {}, or activate the environment that has "
                       "one.",
                       kSupportedTorch, kSupportedTensorflow)}};
}

}  // namespace

std::vector<Finding> check_python(const PythonFacts& python) {
  if (!python.found) {
    return {{"python", Verdict::kFailed, "no python3 on PATH", std::string(kHowToChoosePython)}};
  }
  if (!python.problem.empty()) {
    return {{"python", Verdict::kFailed, python.problem, std::string(kHowToChoosePython)}};
  }
  std::vector<Finding> findings{
      {"python", Verdict::kOk, fmt::format("{} ({})", python.version, python.executable), ""}};
  for (Finding& finding : framework_findings(python)) findings.push_back(std::move(finding));
  findings.push_back(package_finding(python));
  return findings;
}

std::vector<Finding> check_memory(const std::string& root) {
  const MemoryFacts memory = read_memory(root);
  std::vector<Finding> findings;
  findings.push_back({"memory", Verdict::kOk,
                      fmt::format("{}, of which {} available", short_bytes(memory.total),
                                  short_bytes(memory.available)),
                      ""});
  const auto group = read_cgroup_limit(root);
  if (group && group->limit < memory.total) {
    findings.push_back({"cgroup", Verdict::kOk,
                        fmt::format("limit {} (v{} {}); % and auto are shares of it",
                                    short_bytes(group->limit), group->version, group->path),
                        ""});
  } else {
    findings.push_back({"cgroup", Verdict::kOk, "no memory limit", ""});
  }
  findings.push_back({"swap", Verdict::kOk,
                      memory.swap_total == Bytes{0}
                          ? "none"
                          : fmt::format("{}, of which {} free", short_bytes(memory.swap_total),
                                        short_bytes(memory.swap_free)),
                      ""});
  const std::string pages = read_huge_pages(root);
  Finding huge{"huge pages", Verdict::kOk, pages.empty() ? "not offered by this kernel" : pages,
               ""};
  if (pages == "never") {
    huge.verdict = Verdict::kWarning;
    huge.remedy =
        "Ops run slower on small pages. As root: "
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
  }
  findings.push_back(huge);
  return findings;
}

std::vector<Finding> check_limits(const std::string& root) {
  std::vector<Finding> findings;
  if (const auto count = read_max_map_count(root)) {
    Finding finding{"mappings", Verdict::kOk, fmt::format("at most {} (vm.max_map_count)", *count),
                    ""};
    if (*count < kLeastMapCount) {
      finding.verdict = Verdict::kWarning;
      finding.remedy = fmt::format("As root: sysctl vm.max_map_count={}", kLeastMapCount);
    }
    findings.push_back(finding);
  }
  const auto space = soft_limit(RLIMIT_AS);
  Finding address{"address space", Verdict::kOk, "unlimited", ""};
  if (space) {
    address.verdict = Verdict::kWarning;
    address.what = fmt::format("limited to {}", short_bytes(*space));
    address.remedy =
        "Spillway needs 8 GiB of addresses or more, since evicted storages keep theirs. "
        "ulimit -v unlimited";
  }
  findings.push_back(address);
  findings.push_back(page_pool_finding());
  findings.push_back(io_uring_finding());
  return findings;
}

Finding check_card(const std::string& library) {
  if (void* const driver = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    ::dlclose(driver);
  } else {
    return {"card", Verdict::kOk, fmt::format("none: {} is not installed", library), ""};
  }
  try {
    const runtime::CudaLibrary cards(library);
    const runtime::CudaCard first = cards.card(0);
    const std::string which =
        cards.device_count() == 1
            ? first.name
            : fmt::format("{}, the first of {}", first.name, cards.device_count());
    if (!first.maps_memory) {
      return {"card", Verdict::kWarning,
              fmt::format("{}: its memory cannot be mapped at addresses of a program's choice, so "
                          "no budget of it can be kept",
                          which),
              "To hold the CPU's memory: SPILLWAY_BUDGET=cpu:8GiB."};
    }
    return {"card", Verdict::kOk,
            fmt::format("{}: its memory can be mapped. A PyTorch that is built for CUDA keeps a "
                        "budget of it, unless the budget names the CPU: SPILLWAY_BUDGET=cpu:8GiB",
                        which),
            ""};
  } catch (const UserError& error) {
    return {"card", Verdict::kWarning, error.what(), ""};
  }
}

SpoolCheck check_spool(const std::string& directory) {
  struct stat status {};
  struct statfs system {};
  if (stat(directory.c_str(), &status) != 0 || statfs(directory.c_str(), &system) != 0) {
    return {.findings = {{"spool", Verdict::kFailed,
                          fmt::format("{}: {}", directory, std::strerror(errno)),
                          "Name a writable directory with --spool-dir or SPILLWAY_SPOOL_DIR."}}};
  }
  SpoolCheck check{.findings = {file_system_finding(directory, system)}};
  check.free = Bytes{static_cast<std::uint64_t>(system.f_bsize)} * system.f_bavail;
  check.findings.push_back(space_finding(check.free));
  if (check.free < kSpeedFile * 2) {
    check.findings.push_back(
        {"disk speed", Verdict::kWarning, "not measured: too little free space", ""});
    return check;
  }
  const DiskSpeed speed = measure_disk_speed(directory, kSpeedFile);
  if (!speed.problem.empty()) {
    check.findings.push_back({"disk speed", Verdict::kFailed, speed.problem,
                              "Name a writable directory with --spool-dir or SPILLWAY_SPOOL_DIR."});
    return check;
  }
  check.speed = speed;
  const std::vector<Finding> measured = speed_findings(speed);
  check.findings.insert(check.findings.end(), measured.begin(), measured.end());
  return check;
}

}  // namespace spillway::tools
