//! Content codings: taken off a request's body for its fingerprint, and off a kept answer for a caller
//! that does not accept them.

use std::io::{self, Read};

use bytes::Bytes;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{
    HeaderMap,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING},
};

const CODINGS_MAX: usize = 4;
const BROTLI_BUFFER: usize = 4 * 1024;

/// Why a body could not be decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DecodeError {
    Malformed,
    TooLarge,
}

/// The codings of a message, in the order they were applied.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Codings(Vec<String>);

impl Codings {
    /// Reads them. `identity` is none.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut names = Vec::new();
        for value in headers.get_all(CONTENT_ENCODING) {
            let text = String::from_utf8_lossy(value.as_bytes());
            let known = |name: &&str| !name.is_empty() && !name.eq_ignore_ascii_case("identity");
            names.extend(text.split(',').map(str::trim).filter(known).map(str::to_ascii_lowercase));
        }
        Self(names)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes them as one value.
    pub(crate) fn text(&self) -> String {
        self.0.join(", ")
    }

    /// Takes them off, last one first; `None` if one is not known.
    pub(crate) fn decode(&self, bytes: &Bytes, max: usize) -> Result<Option<Bytes>, DecodeError> {
        if self.0.len() > CODINGS_MAX {
            return Err(DecodeError::Malformed);
        }
        if !self.0.iter().all(|name| is_known(name)) {
            return Ok(None);
        }
        let mut bytes = bytes.clone();
        for name in self.0.iter().rev() {
            bytes = decode(name, &bytes, max)?.into();
        }
        Ok(Some(bytes))
    }

    /// Says whether a caller accepts all of them (RFC 9110, 12.5.3). Without a word it does.
    pub(crate) fn accepted(&self, headers: &HeaderMap) -> bool {
        let mut lines = headers.get_all(ACCEPT_ENCODING).iter().peekable();
        if lines.peek().is_none() {
            return true;
        }
        let accepts: Vec<(String, bool)> = lines
            .flat_map(|value| {
                let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
                text.split(',').map(accepts).collect::<Vec<_>>()
            })
            .collect();
        let word =
            |name: &str| accepts.iter().find(|(known, _)| known == name).map(|(_, yes)| *yes);
        self.0.iter().all(|name| word(plain(name)).or_else(|| word("*")).unwrap_or(false))
    }
}

fn accepts(item: &str) -> (String, bool) {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let refused = parts.any(|part| {
        let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
        weight.is_some_and(|weight| weight.parse() == Ok(0.0))
    });
    (plain(&name).to_owned(), !refused)
}

fn plain(name: &str) -> &str {
    name.strip_prefix("x-").unwrap_or(name)
}

fn is_known(name: &str) -> bool {
    matches!(name, "br" | "deflate" | "gzip" | "x-gzip")
}

fn decode(name: &str, bytes: &[u8], max: usize) -> Result<Vec<u8>, DecodeError> {
    match name {
        "br" => within(brotli::Decompressor::new(bytes, BROTLI_BUFFER), max),
        // The name means zlib, but some send the bare stream.
        "deflate" if is_zlib(bytes) => within(ZlibDecoder::new(bytes), max),
        "deflate" => within(DeflateDecoder::new(bytes), max),
        _ => within(MultiGzDecoder::new(bytes), max),
    }
}

fn is_zlib(bytes: &[u8]) -> bool {
    bytes.first_chunk::<2>().is_some_and(|[method, flags]| {
        method & 0x0f == 8 && (u16::from(*method) << 8 | u16::from(*flags)) % 31 == 0
    })
}

fn within(decoder: impl Read, max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let read: io::Result<usize> = decoder.take(limit).read_to_end(&mut out);
    match read {
        Ok(_) if out.len() > max => Err(DecodeError::TooLarge),
        Ok(_) => Ok(out),
        Err(_) => Err(DecodeError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };
    use http::HeaderValue;

    use super::*;

    const TEXT: &[u8] = b"{\"amount\":100,\"currency\":\"EUR\"}";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut coder = GzEncoder::new(Vec::new(), Compression::best());
        coder.write_all(bytes).unwrap();
        coder.finish().unwrap()
    }

    fn brotli_of(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        brotli::BrotliCompress(
            &mut &*bytes,
            &mut out,
            &brotli::enc::BrotliEncoderParams::default(),
        )
        .unwrap();
        out
    }

    fn codings(value: &str) -> Codings {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_str(value).unwrap());
        Codings::of(&headers)
    }

    fn check(value: &str, bytes: Vec<u8>, wanted: Result<Option<&[u8]>, DecodeError>) {
        let decoded = codings(value).decode(&bytes.into(), 1000);
        assert_eq!(decoded, wanted.map(|bytes| bytes.map(Bytes::copy_from_slice)), "{value}");
    }

    #[test]
    fn known_codings_are_taken_off() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(TEXT).unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::fast());
        bare.write_all(TEXT).unwrap();
        check("gzip", gzip(TEXT), Ok(Some(TEXT)));
        check("X-GZIP, identity", gzip(TEXT), Ok(Some(TEXT)));
        check("deflate", zlib.finish().unwrap(), Ok(Some(TEXT)));
        check("deflate", bare.finish().unwrap(), Ok(Some(TEXT)));
        check("br", brotli_of(TEXT), Ok(Some(TEXT)));
        check("br, gzip", gzip(&brotli_of(TEXT)), Ok(Some(TEXT)));
        check("zstd", gzip(TEXT), Ok(None));
        check("identity", TEXT.to_vec(), Ok(Some(TEXT)));
    }

    #[test]
    fn a_bomb_or_a_damaged_body_is_refused() {
        let bomb = vec![0; 1001];
        check("gzip", gzip(&bomb), Err(DecodeError::TooLarge));
        check("br", brotli_of(&bomb), Err(DecodeError::TooLarge));
        check("gzip, gzip", gzip(&gzip(&bomb)), Err(DecodeError::TooLarge));
        let mut short = gzip(TEXT);
        short.truncate(short.len() - 4);
        check("gzip", short, Err(DecodeError::Malformed));
        let mut short = brotli_of(TEXT);
        short.truncate(short.len() - 4);
        check("br", short, Err(DecodeError::Malformed));
        check("gzip", TEXT.to_vec(), Err(DecodeError::Malformed));
        check("gzip,gzip,gzip,gzip,gzip", gzip(TEXT), Err(DecodeError::Malformed));
    }

    #[test]
    fn what_a_caller_accepts_is_read() {
        for (accept, wanted) in [
            (None, true),
            (Some("gzip"), true),
            (Some("br, x-gzip;q=0.5"), true),
            (Some("*"), true),
            (Some("identity"), false),
            (Some(""), false),
            (Some("gzip;q=0, *"), false),
            (Some("br"), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(accept));
            }
            assert_eq!(codings("gzip").accepted(&headers), wanted, "{accept:?}");
        }
    }
}
