//! Reads files whole that an operator names, within a bound: what is no plain file says nothing true of its length, or
//! has no end.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// The largest file of certificates or keys, in bytes.
pub(crate) const PEM_MAX: usize = 16 << 20;

/// Reads a file.
///
/// # Errors
///
/// Fails if it cannot be read, or has more than `max` bytes.
pub(crate) fn read(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(max).unwrap_or(u64::MAX);
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() <= max {
        return Ok(bytes);
    }
    Err(io::Error::other(format!("it has more than {} KiB", max >> 10)))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let refused = read(Path::new("/dev/zero"), 2048).unwrap_err();
        assert_eq!(refused.to_string(), "it has more than 2 KiB");
        assert_eq!(read(Path::new("/dev/null"), 0).unwrap(), b"");
    }
}
