//! The codecs of record batches.

use std::io::{Read, Write};

use sharemark_protocol::ErrorCode;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Compression {
    /// Not at all.
    None,
    /// Gzip members.
    Gzip,
    /// Snappy, in the framing of Java's library or as one raw block.
    Snappy,
    /// An LZ4 frame.
    Lz4,
    /// A Zstandard frame.
    Zstd,
}

/// The start of Java's snappy framing; two version numbers follow it.
const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEADER_SIZE: usize = 16;
/// No tag of a snappy block yields more than this many bytes per byte of its own.
const SNAPPY_RATIO_MAX: usize = 64;
/// The window that Zstandard's own tools accept; a wider one is refused.
const ZSTD_WINDOW_BYTES_MAX: u64 = 128 << 20;

impl Compression {
    /// Returns the codec that a batch's attributes name, or `None` for a number without codec.
    pub const fn from_attributes(attributes: i16) -> Option<Self> {
        match attributes & 7 {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns the number that stands for the codec in a batch's attributes.
    pub const fn attribute_bits(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Decompresses the records of a batch.
    ///
    /// # Errors
    ///
    /// - `InvalidRecord` if the bytes are not what the codec writes.
    /// - `MessageTooLarge` if there are more than `size_bytes_max` of them.
    pub(crate) fn decompress(self, bytes: &[u8], size_bytes_max: usize) -> Result<Vec<u8>, ErrorCode> {
        match self {
            Self::None => Ok(bytes.to_vec()),
            Self::Gzip => read_limited(flate2::read::MultiGzDecoder::new(bytes), size_bytes_max),
            Self::Snappy => decompress_snappy(bytes, size_bytes_max),
            Self::Lz4 => read_limited(lz4_flex::frame::FrameDecoder::new(bytes), size_bytes_max),
            Self::Zstd => {
                let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(
                    bytes,
                    ZSTD_WINDOW_BYTES_MAX,
                )
                .map_err(|_| ErrorCode::InvalidRecord)?;
                read_limited(decoder, size_bytes_max)
            }
        }
    }

    /// Compresses the records of a batch.
    pub(crate) fn compress(self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(bytes.to_vec()),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Self::Snappy => compress_snappy(bytes),
            Self::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(bytes)?;
                encoder.finish().map_err(std::io::Error::other)
            }
            Self::Zstd => {
                Ok(ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest))
            }
        }
    }
}

/// Reads to the end, but no more than the limit allows.
fn read_limited(reader: impl Read, size_bytes_max: usize) -> Result<Vec<u8>, ErrorCode> {
    let mut out = Vec::new();
    let limit = u64::try_from(size_bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(limit).read_to_end(&mut out).map_err(|_| ErrorCode::InvalidRecord)?;
    if size_bytes_max < out.len() {
        return Err(ErrorCode::MessageTooLarge);
    }
    Ok(out)
}

fn decompress_snappy(bytes: &[u8], size_bytes_max: usize) -> Result<Vec<u8>, ErrorCode> {
    let mut out = Vec::new();
    if !bytes.starts_with(&XERIAL_MAGIC) {
        decompress_snappy_block(bytes, size_bytes_max, &mut out)?;
        return Ok(out);
    }
    let mut rest = bytes.get(XERIAL_HEADER_SIZE..).ok_or(ErrorCode::InvalidRecord)?;
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(ErrorCode::InvalidRecord)?;
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| ErrorCode::InvalidRecord)?;
        let (block, after) = after.split_at_checked(length).ok_or(ErrorCode::InvalidRecord)?;
        decompress_snappy_block(block, size_bytes_max, &mut out)?;
        rest = after;
    }
    Ok(out)
}

/// Appends one block, whose first bytes say how large it will be.
fn decompress_snappy_block(block: &[u8], size_bytes_max: usize, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
    let size = snap::raw::decompress_len(block).map_err(|_| ErrorCode::InvalidRecord)?;
    if block.len().saturating_mul(SNAPPY_RATIO_MAX) < size {
        return Err(ErrorCode::InvalidRecord); // A lie that would only cost memory.
    }
    let start = out.len();
    if size_bytes_max < start.saturating_add(size) {
        return Err(ErrorCode::MessageTooLarge);
    }
    out.resize(start + size, 0);
    let written = snap::raw::Decoder::new()
        .decompress(block, &mut out[start..])
        .map_err(|_| ErrorCode::InvalidRecord)?;
    out.truncate(start + written);
    Ok(())
}

fn compress_snappy(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    const BLOCK_SIZE: usize = 32 << 10;
    let mut out = XERIAL_MAGIC.to_vec();
    out.extend_from_slice(&1_i32.to_be_bytes());
    out.extend_from_slice(&1_i32.to_be_bytes());
    for block in bytes.chunks(BLOCK_SIZE) {
        let compressed = snap::raw::Encoder::new().compress_vec(block).map_err(std::io::Error::other)?;
        let length = i32::try_from(compressed.len()).map_err(std::io::Error::other)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&compressed);
    }
    Ok(out)
}
