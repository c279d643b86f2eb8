//! The tokens of JSON: blanks, strings, numbers and literals.

use super::super::FingerprintError;
use super::number::Number;
use super::parser::{Parser, Result};
use super::{scan, text};

/// How a string was spelled.
#[derive(Copy, Clone, Default)]
pub(super) struct Spelling {
    /// It held an escape.
    pub(super) escaped: bool,
    /// Its canonical spelling is another one.
    pub(super) rewritten: bool,
}

impl Parser<'_> {
    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    /// Returns the position in the text, the run that is still to be written included.
    #[inline(always)]
    pub(super) fn here(&self) -> usize {
        self.tape.text.len() + (self.at - self.copied)
    }

    /// Writes the run up to here.
    #[inline]
    pub(super) fn flush(&mut self) {
        self.tape.text.extend_from_slice(&self.input[self.copied..self.at]);
        self.copied = self.at;
    }

    /// Leaves out the blanks that stand here.
    #[inline(always)]
    pub(super) fn space(&mut self) {
        if matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.skip_space();
        }
    }

    #[inline]
    fn skip_space(&mut self) {
        self.flush();
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\t' | b'\r');
        self.at += self.input[self.at..].iter().take_while(blank).count();
        self.copied = self.at;
    }

    #[cold]
    pub(super) fn malformed(&self, expected: &'static str) -> FingerprintError {
        FingerprintError::Malformed { at: self.at, expected }
    }

    pub(super) fn literal(&mut self, word: &[u8]) -> Result<()> {
        if !self.input[self.at..].starts_with(word) {
            return Err(self.malformed("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Reads a string, from its opening quote on.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Spelling> {
        let mut spelling = Spelling::default();
        self.at += 1;
        loop {
            self.at += scan::plain(&self.input[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(spelling);
                }
                Some(b'\\') => {
                    spelling.escaped = true;
                    spelling.rewritten |= self.escape()?;
                }
                Some(_) => return Err(self.malformed("expected no control character in a string")),
                None => return Err(self.malformed("expected the end of a string")),
            }
        }
    }

    /// Reads an escape. True if its canonical spelling is another one.
    fn escape(&mut self) -> Result<bool> {
        match self.input.get(self.at + 1) {
            Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(false)
            }
            Some(b'/') => {
                self.rewrite('/', 2);
                Ok(true)
            }
            Some(b'u') => {
                let (character, len) = self.unicode()?;
                self.rewrite(character, len);
                Ok(true)
            }
            _ => Err(self.malformed("expected an escape")),
        }
    }

    /// Writes `character` for the `len` bytes that stand here.
    fn rewrite(&mut self, character: char, len: usize) {
        self.flush();
        text::push_char(character, &mut self.tape.text);
        self.at += len;
        self.copied = self.at;
    }

    /// Reads the character of one `\u` escape or of a pair of them, and how long it is.
    fn unicode(&self) -> Result<(char, usize)> {
        let lone = || FingerprintError::LoneSurrogate { at: self.at };
        let first = self.unit(self.at)?;
        if let Some(character) = char::from_u32(first.into()) {
            return Ok((character, 6));
        }
        if !self.input[self.at + 6..].starts_with(b"\\u") {
            return Err(lone());
        }
        let units = [first, self.unit(self.at + 6)?];
        match char::decode_utf16(units).next() {
            Some(Ok(character)) => Ok((character, 12)),
            _ => Err(lone()),
        }
    }

    /// Reads the four digits of the escape at `at`.
    fn unit(&self, at: usize) -> Result<u16> {
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        let add = |unit: u32, next| digit(next).map(|digit| unit << 4 | digit);
        let digits = self.input.get(at + 2..at + 6);
        let unit = digits.and_then(|digits| digits.iter().try_fold(0, add));
        unit.and_then(|unit| u16::try_from(unit).ok())
            .ok_or(FingerprintError::Malformed { at, expected: "expected four hexadecimal digits" })
    }

    /// Reads a number.
    #[inline]
    pub(super) fn number(&mut self) -> Result<()> {
        let (input, start) = (self.input, self.at);
        let negative = input[start] == b'-';
        let whole = start + usize::from(negative);
        let mut end = self.digits(whole)?;
        if input[whole] == b'0' && end > whole + 1 {
            self.at = whole + 1;
            return Err(self.malformed("expected no digit behind a leading zero"));
        }
        let mut number =
            Number { negative, whole: &input[whole..end], fraction: b"", exponent: b"" };
        if let Some(b'.') = input.get(end) {
            let fraction = end + 1;
            end = self.digits(fraction)?;
            number.fraction = &input[fraction..end];
        }
        if let Some(b'e' | b'E') = input.get(end) {
            let exponent = end + 1;
            let signed = matches!(input.get(exponent), Some(b'+' | b'-'));
            end = self.digits(exponent + usize::from(signed))?;
            number.exponent = &input[exponent..end];
        }
        self.at = end;
        if number.is_canonical() {
            return Ok(());
        }
        self.tape.text.extend_from_slice(&input[self.copied..start]);
        self.copied = end;
        number.write(start, self.limits, &mut self.tape.text)
    }

    /// Returns the end of the digits that begin at `start`, of which there must be one.
    #[inline]
    fn digits(&mut self, start: usize) -> Result<usize> {
        let rest = self.input.get(start..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            self.at = start;
            return Err(self.malformed("expected a digit"));
        }
        Ok(start + count)
    }
}
