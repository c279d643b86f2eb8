//! What is logged of an error: the sentence that says what to do stands at the end of its chain.

use std::{error::Error, fmt};

/// Shows an error with everything that caused it.
pub(crate) struct Why<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use semel::{StoreError, StoreErrorKind};

    use super::*;

    #[test]
    fn what_to_do_is_told() {
        let full = StoreError::new(StoreErrorKind::Full, "make room").with_source("disk full");
        let shown = Why(&semel::Error::Store(full)).to_string();
        assert_eq!(shown, "the store could not be asked: make room: disk full");
    }
}
