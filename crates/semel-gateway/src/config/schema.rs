//! How a setting is declared: once, with its type, its default and its words. The reader, the default
//! file and the reference page all come from that declaration.

use toml::{Spanned, de::DeValue};

use super::problem::ProblemKind;
use super::read::{Reading, Table, items, without_index};

/// What a setting holds.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// One value or a list of values, named for the reference.
    Plain(&'static str),
    /// A table of settings.
    Table(fn() -> Vec<Setting>),
    /// A list of tables of settings.
    Tables(fn() -> Vec<Setting>),
}

/// One setting, as the reference shows it.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The default as TOML; `None` if there is none.
    pub(crate) default: Option<&'static str>,
    /// A default text that another crate names.
    pub(crate) named: Option<&'static str>,
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

    /// Returns the text of what holds then, for the reference.
    fn absent_shown() -> Option<&'static str> {
        None
    }

    /// Reads a value, or notes why it cannot be read.
    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self>;
}

/// A table of settings.
pub(crate) trait Section: Sized {
    /// Lists its settings in the order of the reference.
    fn settings() -> Vec<Setting>;

    /// Reads it, going on after every problem.
    fn from_table(table: &mut Table<'_, '_, '_>) -> Option<Self>;
}

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

impl<V: Value> Value for Vec<V> {
    fn kind() -> Kind {
        match V::kind() {
            Kind::Table(settings) => Kind::Tables(settings),
            other => other,
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        items(value, path, reading)
    }
}

/// Reads a table of settings.
pub(crate) fn section<S: Section>(
    value: &Spanned<DeValue<'_>>,
    path: &str,
    reading: &mut Reading<'_>,
) -> Option<S> {
    if let Some(table) = value.get_ref().as_table() {
        return S::from_table(&mut Table { table, path, reading });
    }
    let shown = without_index(path);
    let message = format!("`{shown}` is a table: write [{shown}] and its settings below it");
    reading.at(ProblemKind::Value, path, value.span(), message);
    None
}

/// Declares a table of settings: a struct, its reader and its reference in one.
///
/// A default is written as TOML. A setting without one must be set, unless its type can be absent.
macro_rules! settings {
    (
        $(#[doc = $about:literal])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])* $field:ident : $kind:ty $(= $default:tt)?,)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $kind,)*
        }

        impl $crate::config::schema::Section for $name {
            fn settings() -> Vec<$crate::config::schema::Setting> {
                vec![$({
                    let default = settings!(@default $($default)?);
                    $crate::config::schema::Setting {
                        name: stringify!($field),
                        kind: <$kind as $crate::config::schema::Value>::kind(),
                        default,
                        named: <$kind as $crate::config::schema::Value>::absent_shown(),
                        required: default.is_none()
                            && <$kind as $crate::config::schema::Value>::absent().is_none(),
                        words: &[$($doc),*],
                    }
                }),*]
            }

            fn from_table(table: &mut $crate::config::read::Table<'_, '_, '_>) -> Option<Self> {
                $(let $field = table.value(stringify!($field), settings!(@default $($default)?));)*
                table.refuse_others(&[$(stringify!($field)),*]);
                Some(Self { $($field: $field?,)* })
            }
        }

        impl $crate::config::schema::Value for $name {
            fn kind() -> $crate::config::schema::Kind {
                $crate::config::schema::Kind::Table(
                    <Self as $crate::config::schema::Section>::settings,
                )
            }

            fn read(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
                path: &str,
                reading: &mut $crate::config::read::Reading<'_>,
            ) -> Option<Self> {
                $crate::config::schema::section(value, path, reading)
            }
        }
    };
    (@default) => { None::<&'static str> };
    (@default $default:tt) => { Some(stringify!($default)) };
}

/// A setting that is one of a few words.
pub(crate) trait Word: Copy + Eq + 'static {
    /// Each word and what it means.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the word for this meaning.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, meaning)| *meaning == self).map_or("", |(word, _)| word)
    }
}

/// Declares the words of a setting.
macro_rules! words {
    ($name:ident: $($variant:ident = $word:literal),*) => {
        impl $crate::config::schema::Word for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),*];
        }

        impl $crate::config::schema::Value for $name {
            fn kind() -> $crate::config::schema::Kind {
                $crate::config::schema::Kind::Plain(words!(@joined $($word),*))
            }

            fn read(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
                path: &str,
                reading: &mut $crate::config::read::Reading<'_>,
            ) -> Option<Self> {
                $crate::config::read::word(value, path, reading)
            }
        }
    };
    (@joined $first:literal $(, $rest:literal)*) => {
        concat!("\"", $first, "\"" $(, ", \"", $rest, "\"")*)
    };
}

pub(crate) use {settings, words};
