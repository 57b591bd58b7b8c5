//! Finding the end of a stretch of string bytes, many at once. The one file of this crate that may use `unsafe`; each search has a scalar twin,
//! and a fuzz target holds the two against each other. Decides nothing about grammar.
#![allow(unsafe_code)]

/// Whether a byte ends a stretch of plain ASCII in a string: a quote, a backslash, a control character, or a byte of a longer UTF-8 sequence.
const fn ends_plain(byte: u8) -> bool {
    byte >= 0x80 || ends_quoted(byte)
}

/// Whether a byte needs a decision inside a string: a quote, a backslash or a control character (RFC 8259 §7).
const fn ends_quoted(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Scalar twin of [`plain_end`].
pub fn plain_end_scalar(bytes: &[u8], from: usize) -> usize {
    scalar(bytes, from, ends_plain)
}

/// Scalar twin of [`quoted_end`].
pub fn quoted_end_scalar(bytes: &[u8], from: usize) -> usize {
    scalar(bytes, from, ends_quoted)
}

fn scalar(bytes: &[u8], from: usize, ends: fn(u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())
}

/// The first byte at or behind `from` that is not plain string content in ASCII; `bytes.len()` if there is none.
#[inline(always)]
pub fn plain_end(bytes: &[u8], from: usize) -> usize {
    search::<true>(bytes, from)
}

/// The first quote, backslash or control character at or behind `from`; `bytes.len()` if there is none.
#[inline(always)]
pub fn quoted_end(bytes: &[u8], from: usize) -> usize {
    search::<false>(bytes, from)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn search<const ASCII: bool>(bytes: &[u8], from: usize) -> usize {
    if ASCII { plain_end_scalar(bytes, from) } else { quoted_end_scalar(bytes, from) }
}

#[cfg(target_arch = "x86_64")]
use x86::search;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Strings up to this long are searched in place, 16 bytes at a time, with what every x86-64 has; longer ones are worth a call.
    const SHORT_BYTES: usize = 48;

    #[inline(always)]
    pub(super) fn search<const ASCII: bool>(bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        let short_end = from + SHORT_BYTES;
        while at < short_end {
            if at + 16 > bytes.len() {
                return tail::<ASCII>(bytes, at);
            }
            // SAFETY: the 16 bytes at `at` lie within `bytes`, as was just checked; SSE2 is part of x86-64.
            let mask = unsafe { mask16::<ASCII>(bytes.as_ptr().add(at)) };
            if mask != 0 {
                return at + mask.trailing_zeros() as usize;
            }
            at += 16;
        }
        long::<ASCII>(bytes, at)
    }

    #[inline(never)]
    fn tail<const ASCII: bool>(bytes: &[u8], from: usize) -> usize {
        if ASCII { super::plain_end_scalar(bytes, from) } else { super::quoted_end_scalar(bytes, from) }
    }

    #[inline(never)]
    fn long<const ASCII: bool>(bytes: &[u8], from: usize) -> usize {
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, as was just asked.
            return unsafe { long_avx2::<ASCII>(bytes, from) };
        }
        let mut at = from;
        while at + 16 <= bytes.len() {
            // SAFETY: the 16 bytes at `at` lie within `bytes`; SSE2 is part of x86-64.
            let mask = unsafe { mask16::<ASCII>(bytes.as_ptr().add(at)) };
            if mask != 0 {
                return at + mask.trailing_zeros() as usize;
            }
            at += 16;
        }
        tail::<ASCII>(bytes, at)
    }

    /// One bit for each of 16 bytes that ends the stretch.
    ///
    /// # Safety
    /// `from` must point to 16 readable bytes.
    #[inline(always)]
    unsafe fn mask16<const ASCII: bool>(from: *const u8) -> u32 {
        // SAFETY: the caller vouches for the 16 bytes; the load has no alignment to keep. The rest works on registers.
        unsafe {
            let block = _mm_loadu_si128(from.cast());
            let quote = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
            let escape = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
            let control = if ASCII {
                // As a signed number, both a control character and a byte from 0x80 on lie below 0x20.
                _mm_cmplt_epi8(block, _mm_set1_epi8(0x20))
            } else {
                _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block)
            };
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, escape), control)) as u32
        }
    }

    /// # Safety
    /// The processor must have AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn long_avx2<const ASCII: bool>(bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        while at + 64 <= bytes.len() {
            // SAFETY: the 64 bytes at `at` lie within `bytes`; AVX2 is there, as the caller vouches.
            let mask = unsafe {
                let low = mask32::<ASCII>(bytes.as_ptr().add(at));
                let high = mask32::<ASCII>(bytes.as_ptr().add(at + 32));
                u64::from(low) | u64::from(high) << 32
            };
            if mask != 0 {
                return at + mask.trailing_zeros() as usize;
            }
            at += 64;
        }
        while at + 16 <= bytes.len() {
            // SAFETY: the 16 bytes at `at` lie within `bytes`; SSE2 is part of x86-64.
            let mask = unsafe { mask16::<ASCII>(bytes.as_ptr().add(at)) };
            if mask != 0 {
                return at + mask.trailing_zeros() as usize;
            }
            at += 16;
        }
        tail::<ASCII>(bytes, at)
    }

    /// One bit for each of 32 bytes that ends the stretch.
    ///
    /// # Safety
    /// `from` must point to 32 readable bytes, and the processor must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn mask32<const ASCII: bool>(from: *const u8) -> u32 {
        // SAFETY: the caller vouches for the 32 bytes; the load has no alignment to keep.
        let block = unsafe { _mm256_loadu_si256(from.cast()) };
        let quote = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'"' as i8));
        let escape = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'\\' as i8));
        let control = if ASCII {
            _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), block)
        } else {
            _mm256_cmpeq_epi8(_mm256_min_epu8(block, _mm256_set1_epi8(0x1f)), block)
        };
        _mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(quote, escape), control)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_and_scalar_find_the_same_byte_at_every_offset() {
        let random = fastrand::Rng::with_seed(7).clone();
        let mut random = random;
        for length in 0..200 {
            let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(b'a'..=b'z')).collect();
            for special in [None, Some(b'"'), Some(b'\\'), Some(0x1f), Some(0x80), Some(0xff), Some(0), Some(0x7f)] {
                if let (Some(byte), true) = (special, length > 0) {
                    let at = random.usize(0..length);
                    bytes[at] = byte;
                }
                for from in 0..=length {
                    assert_eq!(plain_end(&bytes, from), plain_end_scalar(&bytes, from), "{bytes:?} from {from}");
                    assert_eq!(quoted_end(&bytes, from), quoted_end_scalar(&bytes, from), "{bytes:?} from {from}");
                }
            }
        }
    }
}
