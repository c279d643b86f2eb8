//! The plain values of a plan's settings: texts, numbers, durations, statuses, headers.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use toml::{Spanned, de::DeValue};

use super::{
    reading::{Reading, refuse, text},
    schema::{Kind, Value},
    span::span,
};

impl<V: Value> Value for Option<V> {
    fn kind() -> Kind {
        V::kind()
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        V::read(value, path, reading).map(Some)
    }
}

impl Value for String {
    fn kind() -> Kind {
        Kind::Plain("text")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        text(value, path, reading)
    }
}

impl Value for bool {
    fn kind() -> Kind {
        Kind::Plain("`true` or `false`")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            refuse(value, path, reading, "true or false, without quotes");
        }
        truth
    }
}

/// Implements [`Value`] for whole numbers.
macro_rules! whole {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn kind() -> Kind {
                Kind::Plain("number")
            }

            fn read(
                value: &Spanned<DeValue<'_>>,
                path: &str,
                reading: &mut Reading<'_>,
            ) -> Option<Self> {
                let whole = value.get_ref().as_integer();
                let number = whole
                    .and_then(|whole| Self::from_str_radix(whole.as_str(), whole.radix()).ok());
                if number.is_none() {
                    refuse(value, path, reading, "a whole number from 0, without quotes");
                }
                number
            }
        }
    )*};
}

whole!(usize, u64);

impl Value for Duration {
    fn kind() -> Kind {
        Kind::Plain("duration")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let span = value.get_ref().as_str().and_then(span);
        if span.is_none() {
            refuse(value, path, reading, "a duration with its unit, such as \"500ms\" or \"60s\"");
        }
        span
    }
}

impl Value for PathBuf {
    fn kind() -> Kind {
        Kind::Plain("path")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let written = text(value, path, reading)?;
        Some(reading.folder.join(written))
    }
}

/// Statuses: one, or a list.
impl Value for Vec<u16> {
    fn kind() -> Kind {
        Kind::Plain("status, or a list of them")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let one = |value: &DeValue<'_>| {
            let status: u16 = value.as_integer()?.as_str().parse().ok()?;
            (100..=599).contains(&status).then_some(status)
        };
        let statuses = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| one(item.get_ref())).collect(),
            other => one(other).map(|status| vec![status]),
        };
        if statuses.as_ref().is_none_or(Self::is_empty) {
            let must_be = "a status from 100 to 599, or a list of at least one, such as [200, 201]";
            refuse(value, path, reading, must_be);
            return None;
        }
        statuses
    }
}

impl Value for Vec<String> {
    fn kind() -> Kind {
        Kind::Plain("list of texts")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let Some(items) = value.get_ref().as_array() else {
            refuse(value, path, reading, "a list of texts, such as [\"a\", \"b\"]");
            return None;
        };
        items.iter().map(|item| text(item, path, reading)).collect()
    }
}

impl Value for [String; 2] {
    fn kind() -> Kind {
        Kind::Plain("two texts")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        if value.get_ref().as_array().is_none_or(|items| items.len() != 2) {
            refuse(value, path, reading, "a list of two texts, such as [\"a\", \"b\"]");
            return None;
        }
        <Vec<String> as Value>::read(value, path, reading)?.try_into().ok()
    }
}

/// Headers: one text for each name.
impl Value for BTreeMap<String, String> {
    fn kind() -> Kind {
        Kind::Plain("table of texts by name")
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let Some(table) = value.get_ref().as_table() else {
            refuse(value, path, reading, "a table, such as { x-tenant = \"one\" }");
            return None;
        };
        let mut texts = Self::new();
        for (name, value) in table {
            let path = format!("{path}.{}", name.get_ref());
            texts.insert(name.get_ref().to_string(), text(value, &path, reading)?);
        }
        Some(texts)
    }
}
