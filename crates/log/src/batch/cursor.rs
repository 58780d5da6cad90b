//! Reading of what records are made of: zigzag varints and runs of bytes.

/// The unread rest of some bytes. A read that fails leaves the rest undefined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes `count` bytes, if there are as many.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    /// Takes a zigzag number of 32 bits. Nearly all have one byte or two.
    #[inline]
    pub(crate) fn varint(&mut self) -> Option<i32> {
        match *self.rest {
            [first, ref rest @ ..] if first < 0x80 => {
                self.rest = rest;
                Some(zigzag_32(u32::from(first)))
            }
            [first, second, ref rest @ ..] if second < 0x80 => {
                self.rest = rest;
                Some(zigzag_32(u32::from(first & 0x7f) | u32::from(second) << 7))
            }
            _ => self.long_varint(),
        }
    }

    #[cold]
    fn long_varint(&mut self) -> Option<i32> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(zigzag_32(value));
            }
        }
        None
    }

    /// Takes a zigzag number of 64 bits.
    #[inline]
    pub(crate) fn varlong(&mut self) -> Option<i64> {
        match *self.rest {
            [first, ref rest @ ..] if first < 0x80 => {
                self.rest = rest;
                Some(zigzag_64(u64::from(first)))
            }
            [first, second, ref rest @ ..] if second < 0x80 => {
                self.rest = rest;
                Some(zigzag_64(u64::from(first & 0x7f) | u64::from(second) << 7))
            }
            _ => self.long_varlong(),
        }
    }

    #[cold]
    fn long_varlong(&mut self) -> Option<i64> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(zigzag_64(value));
            }
        }
        None
    }

    /// Takes a run of bytes behind its length; a negative length is a null.
    #[inline]
    pub(crate) fn nullable_run(&mut self) -> Option<Option<&'a [u8]>> {
        let length = self.varint()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Some(None),
        }
    }
}

const fn zigzag_64(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

const fn zigzag_32(value: u32) -> i32 {
    ((value >> 1) as i32) ^ -((value & 1) as i32)
}

/// Appends a zigzag number of up to 64 bits.
pub(crate) fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while 0x80 <= rest {
        out.push((rest as u8 & 0x7f) | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Returns how many bytes `put_varlong` writes.
pub(crate) const fn varlong_size(value: i64) -> usize {
    let rest = ((value << 1) ^ (value >> 63)) as u64;
    let bits = 64 - (rest | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}
