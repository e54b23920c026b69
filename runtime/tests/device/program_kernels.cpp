// SPDX-License-Identifier: Apache-2.0
#include "program_kernels.hpp"

#include <cstring>
#include <span>
#include <utility>

namespace spillway::runtime {
namespace {

std::uint64_t hash(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL ^ (b + 0x7f4a7c15ULL + (a << 6));
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 32);
}

std::uint64_t load(const std::byte* memory, std::size_t word) {
  std::uint64_t value = 0;
  std::memcpy(&value, memory + word * kStride, sizeof value);
  return value;
}
void store(std::byte* memory, std::size_t word, std::uint64_t value) {
  std::memcpy(memory + word * kStride, &value, sizeof value);
}

}  // namespace

spillway::testing::DeviceKernel fill_kernel(std::size_t words, std::uint64_t salt) {
  return [=](std::span<std::byte* const> at) {
    for (std::size_t i = 0; i < words; ++i) store(at[0], i, hash(salt, i));
  };
}

void fill(Words& target, std::uint64_t salt) {
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = hash(salt, i);
}

spillway::testing::DeviceKernel mix_kernel(std::size_t words, std::size_t of_first,
                                           std::size_t of_second, std::uint64_t salt) {
  return [=](std::span<std::byte* const> at) {
    for (std::size_t i = 0; i < words; ++i) {
      const std::uint64_t in = hash(load(at[1], i % of_first), load(at[2], i % of_second) ^ salt);
      store(at[0], i, hash(load(at[0], i), in));
    }
  };
}

void mix(Words& target, const Words& first, const Words& second, std::uint64_t salt) {
  for (std::size_t i = 0; i < target.size(); ++i) {
    const std::uint64_t in = hash(first[i % first.size()], second[i % second.size()] ^ salt);
    target[i] = hash(target[i], in);
  }
}

spillway::testing::DeviceKernel check_kernel(Words expected, WrongReads wrong) {
  return
      [expected = std::move(expected), wrong = std::move(wrong)](std::span<std::byte* const> at) {
        for (std::size_t i = 0; i < expected.size(); ++i) {
          if (load(at[0], i) != expected[i]) {
            ++*wrong;
            return;
          }
        }
      };
}

}  // namespace spillway::runtime
