// SPDX-License-Identifier: Apache-2.0
#include "compressed_text.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <memory>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";
// Level 9 halves the size of level 3 on traces, whose lines are alike, at no cost that is felt.
constexpr int kCompressionLevel = 9;
constexpr std::size_t kChunk = std::size_t{1} << 18;

}  // namespace

bool ends_in_zst(std::string_view path) {
  constexpr std::string_view kEnding = ".zst";
  return path.size() >= kEnding.size() && path.substr(path.size() - kEnding.size()) == kEnding;
}

std::string compressed(std::string_view text) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     &ZSTD_freeCCtx);
  SPILLWAY_CHECK(context != nullptr, "no memory for zstd");
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kCompressionLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string result(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size =
      ZSTD_compress2(context.get(), result.data(), result.size(), text.data(), text.size());
  SPILLWAY_CHECK(ZSTD_isError(size) == 0, ZSTD_getErrorName(size));
  result.resize(size);
  return result;
}

std::string decompressed(std::string contents, Bytes most) {
  if (contents.substr(0, kZstdMagic.size()) != kZstdMagic) return contents;
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  SPILLWAY_CHECK(context != nullptr, "no memory for zstd");
  // Grows with what is really there: the size that a frame claims is not believed.
  std::string text;
  std::vector<char> chunk(kChunk);
  ZSTD_inBuffer in{contents.data(), contents.size(), 0};
  std::size_t hint = 1;
  // A full output chunk may leave more behind, even when the input is used up.
  for (bool more = true; in.pos < in.size || (more && hint != 0);) {
    ZSTD_outBuffer out{chunk.data(), chunk.size(), 0};
    hint = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(hint) != 0) {
      throw UserError(fmt::format("at byte {} of {} the zstd data is damaged ({})", in.pos, in.size,
                                  ZSTD_getErrorName(hint)));
    }
    text.append(chunk.data(), out.pos);
    more = out.pos == out.size;
    if (Bytes{text.size()} > most) {
      throw UserError(fmt::format("it unpacks to more than {}", to_string(most)));
    }
  }
  if (hint != 0) {
    throw UserError(fmt::format("the zstd data is cut off after {} bytes", contents.size()));
  }
  return text;
}

}  // namespace spillway
