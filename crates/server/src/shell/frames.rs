//! Cuts what a connection receives into frames.

use std::fmt;
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;

/// How much is read at once when no frame's length is known.
const READ_BYTES: usize = 8 * 1024;

/// How much room is made for a long frame before its bytes have come; then as much again as have come.
const ROOM_BYTES_FIRST: usize = 128 * 1024;

/// Frames up to this length are copied out of the buffer, which stays; longer ones take it with them.
const COPIED_BYTES_MAX: usize = 32 * 1024;

/// Why no frame can be had.
#[derive(Debug)]
pub(super) enum FrameError {
    /// The socket failed.
    Io(io::Error),
    /// A length is negative, or above `socket.request.max.bytes`.
    Length(i32),
    /// The peer closed in the middle of a frame.
    Half,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Length(length) => write!(f, "a frame cannot be {length} bytes long"),
            Self::Half => f.write_str("the peer closed in the middle of a frame"),
        }
    }
}

/// Reads frames from one connection.
#[derive(Debug)]
pub(super) struct FrameReader {
    socket: OwnedReadHalf,
    buffer: BytesMut,
    frame_bytes_max: usize,
    at_end: bool,
}

impl FrameReader {
    pub(super) fn new(socket: OwnedReadHalf, frame_bytes_max: usize) -> Self {
        Self { socket, buffer: BytesMut::new(), frame_bytes_max, at_end: false }
    }

    /// Returns the next frame without its length, or `None` when the peer has closed. Drop the future and
    /// call again at will: nothing read is lost.
    pub(super) async fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(Some(frame));
            }
            if self.at_end {
                return if self.buffer.is_empty() { Ok(None) } else { Err(FrameError::Half) };
            }
            self.read().await?;
        }
    }

    /// Reads ahead while a request is out, until the peer closes its side. Stops for good once a whole frame
    /// waits: what a client sends ahead is bounded by one frame.
    pub(super) async fn wait_for_end(&mut self) -> Result<(), FrameError> {
        while !self.at_end {
            if self.holds_frame()? {
                std::future::pending::<()>().await;
            }
            self.read().await?;
        }
        Ok(())
    }

    /// Returns whether the peer has closed its side.
    pub(super) const fn is_at_end(&self) -> bool {
        self.at_end
    }

    async fn read(&mut self) -> Result<(), FrameError> {
        let missing = self.frame_length()?.map(|length| (4 + length).saturating_sub(self.buffer.len()));
        match missing {
            Some(missing) if READ_BYTES < missing => {
                self.buffer.reserve(missing.min(self.buffer.len().max(ROOM_BYTES_FIRST)));
            }
            Some(_) | None => {
                // Wait first, so that an idle connection holds no buffer.
                if self.buffer.is_empty() {
                    self.socket.readable().await.map_err(FrameError::Io)?;
                }
                self.buffer.reserve(READ_BYTES);
            }
        }
        let count = self.socket.read_buf(&mut self.buffer).await.map_err(FrameError::Io)?;
        self.at_end = count == 0;
        Ok(())
    }

    fn holds_frame(&self) -> Result<bool, FrameError> {
        Ok(self.frame_length()?.is_some_and(|length| 4 + length <= self.buffer.len()))
    }

    /// Returns the length of the frame that the buffer begins with, once it is there.
    fn frame_length(&self) -> Result<Option<usize>, FrameError> {
        let Some(prefix) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = i32::from_be_bytes(*prefix);
        match usize::try_from(length) {
            Ok(length_in_bounds) if length_in_bounds <= self.frame_bytes_max => Ok(Some(length_in_bounds)),
            Ok(_) | Err(_) => Err(FrameError::Length(length)),
        }
    }

    fn take_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(length) = self.frame_length()? else { return Ok(None) };
        let end = 4 + length;
        if self.buffer.len() < end {
            return Ok(None);
        }
        if length <= COPIED_BYTES_MAX {
            // What is kept of a small frame must not pin the whole buffer.
            let frame = Bytes::copy_from_slice(&self.buffer[4..end]);
            self.buffer.advance(end);
            return Ok(Some(frame));
        }
        let rest = BytesMut::from(&self.buffer[end..]);
        let mut frame = std::mem::replace(&mut self.buffer, rest);
        frame.truncate(end);
        Ok(Some(frame.freeze().slice(4..)))
    }
}
