//! How a setting of a plan is declared: once, with its type, its default and its words. The reader and
//! the reference page both come from that declaration.

use std::path::Path;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::reading::{Reading, Table, refuse};

/// What a setting holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A value, named for the reference.
    Plain(&'static str),
    /// A table of settings: its name where several settings share it, its words, its settings.
    Table(fn() -> Section),
}

/// A table of settings, as the reference shows it.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) words: &'static [&'static str],
    pub(crate) settings: Vec<Setting>,
}

/// One setting, as the reference shows it.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The default as TOML; `None` if there is none.
    pub(crate) default: Option<&'static str>,
    /// Whether leaving it out is a problem.
    pub(crate) required: bool,
    pub(crate) words: &'static [&'static str],
}

/// What can be read from a value of the file.
pub(crate) trait Value: Sized {
    /// Says what is written in the file.
    fn kind() -> Kind;

    /// Returns what holds when nothing is written and there is no default.
    fn absent() -> Option<Self> {
        None
    }

    /// Reads a value, or notes why it cannot be read.
    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self>;
}

/// Declares a table of settings: a struct, its reader and its reference in one. A default is written
/// as TOML. A setting without one must be set, unless its type can be absent.
macro_rules! table {
    (
        $(#[doc = $about:literal])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])* $field:ident : $kind:ty $(= $default:tt)?,)*
        }
        $(and { $($(#[doc = $beside_doc:literal])* $beside:ident : $beside_kind:ty,)* })?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $kind,)*
            $($($(#[doc = $beside_doc])* pub $beside: $beside_kind,)*)?
        }

        impl $name {
            fn section() -> $crate::plan::schema::Section {
                let settings = vec![$({
                    let default: Option<&str> = table!(@default $($default)?);
                    $crate::plan::schema::Setting {
                        name: stringify!($field),
                        kind: <$kind as $crate::plan::schema::Value>::kind(),
                        default,
                        required: default.is_none()
                            && <$kind as $crate::plan::schema::Value>::absent().is_none(),
                        words: &[$($doc),*],
                    }
                }),*];
                let words = &[$($about),*];
                $crate::plan::schema::Section { name: stringify!($name), words, settings }
            }

            pub(super) fn from_table(
                table: &mut $crate::plan::reading::Table<'_, '_, '_>,
            ) -> Option<Self> {
                $(let $field = table.value(stringify!($field), table!(@default $($default)?));)*
                table.refuse_others(&[$(stringify!($field)),*]);
                Some(Self { $($field: $field?,)* $($($beside: Default::default(),)*)? })
            }
        }

        impl $crate::plan::schema::Value for $name {
            fn kind() -> $crate::plan::schema::Kind {
                $crate::plan::schema::Kind::Table(Self::section)
            }

            fn absent() -> Option<Self> {
                $crate::plan::schema::of_nothing(Self::from_table)
            }

            fn read(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
                path: &str,
                reading: &mut $crate::plan::reading::Reading<'_>,
            ) -> Option<Self> {
                let Some(table) = value.get_ref().as_table() else {
                    let message = format!(
                        "`{path}` is a table: write [{path}] and its settings below it"
                    );
                    reading.at(path, value.span(), message);
                    return None;
                };
                Self::from_table(&mut $crate::plan::reading::Table::new(table, path, reading))
            }
        }
    };
    (@default) => { None };
    (@default $default:tt) => { Some(stringify!($default)) };
}

/// Reads an empty table: what holds where the table is not written at all.
pub(super) fn of_nothing<T>(read: impl FnOnce(&mut Table<'_, '_, '_>) -> Option<T>) -> Option<T> {
    let mut nowhere = Reading::new(Path::new(""), None);
    read(&mut Table::new(&DeTable::new(), "", &mut nowhere))
}

/// Declares the words of a setting.
macro_rules! words {
    (
        $(#[doc = $about:literal])*
        pub enum $name:ident {
            $($(#[doc = $doc:literal])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum $name {
            $($(#[doc = $doc])* $variant,)*
        }

        impl $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),*];

            /// Returns the word that a plan writes.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl $crate::plan::schema::Value for $name {
            fn kind() -> $crate::plan::schema::Kind {
                $crate::plan::schema::Kind::Plain(table_words!($($word),*))
            }

            fn read(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
                path: &str,
                reading: &mut $crate::plan::reading::Reading<'_>,
            ) -> Option<Self> {
                $crate::plan::schema::word(value, path, reading, Self::WORDS)
            }
        }
    };
}

/// Joins words for the reference.
macro_rules! table_words {
    ($first:literal $(, $rest:literal)*) => {
        concat!("`\"", $first, "\"`" $(, ", `\"", $rest, "\"`")*)
    };
}

pub(super) use {table, table_words, words};

/// Reads one of a fixed set of words.
pub(super) fn word<W: Copy>(
    value: &Spanned<DeValue<'_>>,
    path: &str,
    reading: &mut Reading<'_>,
    words: &[(&str, W)],
) -> Option<W> {
    let text = value.get_ref().as_str().unwrap_or_default();
    let met = words.iter().find(|(word, _)| *word == text);
    if met.is_none() {
        let quoted: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let near = super::problem::hint(text, words.iter().map(|(word, _)| *word));
        refuse(value, path, reading, &format!("one of {}{near}", quoted.join(", ")));
    }
    met.map(|(_, meaning)| *meaning)
}
