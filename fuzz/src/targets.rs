//! The list of targets. What each promises stands at the head of its file.

mod bodies;
mod canonicaliser;
mod codec;
mod forms;
mod key;

use crate::Target;

/// Lists targets by the names of their modules.
macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        /// Every target.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), run: $name::run }),*];
    };
}

targets! { bodies, canonicaliser, codec, forms, key }
