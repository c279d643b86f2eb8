//! The rule that code stays in its room: what each file must not know is a table.

use super::Finding;
use super::rust::finds_word;
use super::tree::Tree;

/// What must not stand in the code of some files.
#[derive(Debug)]
struct Room {
    /// Files whose path starts with this …
    inside: &'static str,
    /// … and ends with this …
    named: &'static str,
    /// … unless it ends with this.
    except: &'static str,
    banned: &'static [&'static str],
    why: &'static str,
}

const ROOMS: &[Room] = &[
    Room {
        inside: "crates/semel/src/decide",
        named: ".rs",
        except: "-",
        banned: &[
            "async",
            "await",
            "Instant",
            "SystemTime",
            "tokio",
            "rand",
            "getrandom",
            "std::fs",
            "std::env",
        ],
        why: "the decision is pure: no waiting, clock, chance or I/O",
    },
    Room {
        inside: "crates/semel/src/",
        named: "record.rs",
        except: "-",
        banned: &["serde", "Serialize", "Deserialize"],
        why: "only codec.rs turns a record into bytes",
    },
    Room {
        inside: "crates/semel/src/",
        named: ".rs",
        except: "-",
        banned: &["http::", "hyper::", "axum::", "tower::"],
        why: "the engine does not know that there is such a thing as HTTP",
    },
    Room {
        inside: "crates/semel-sqlite/src/",
        named: ".rs",
        except: "/error.rs",
        banned: &[
            "ErrorCode::",
            "SqliteFailure",
            "extended_code",
            "ffi::SQLITE_BUSY",
            "ffi::SQLITE_FULL",
        ],
        why: "only this store's error.rs matches the driver's codes",
    },
    Room {
        inside: "crates/semel-redis/src/",
        named: ".rs",
        except: "/error.rs",
        banned: &["is_io_error", "retry_method", "redirect_node", "is_timeout"],
        why: "only this store's error.rs says what an error of the driver means",
    },
];

/// Nothing stands in a room that must not know it.
pub(super) fn room(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for room in ROOMS {
        let inside = |path: &str| {
            path.starts_with(room.inside)
                && path.ends_with(room.named)
                && !path.ends_with(room.except)
        };
        for (file, rust) in tree.rust().filter(|(file, _)| inside(&file.path)) {
            for (number, line) in rust.lines().filter(|(number, _)| !file.is_test_line(*number)) {
                for word in room.banned.iter().filter(|word| names(line, word)) {
                    let says = format!("`{word}` has no place here: {}", room.why);
                    findings.push(Finding::new(&file.path, number, says));
                }
            }
        }
    }
    findings
}

fn names(line: &str, word: &str) -> bool {
    match word.strip_suffix("::") {
        // A path that only begins with the banned crate: `http::Method`, never `semel_http::Layer`.
        Some(start) => line
            .match_indices(word)
            .any(|(at, _)| finds_word(&line[at..], start) && starts(line, at)),
        None => finds_word(line, word),
    }
}

fn starts(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    fn check(path: &str, text: &str, lines: &[usize]) {
        let wanted: Vec<_> = lines.iter().map(|line| format!("{path}:{line}")).collect();
        assert_eq!(places(room, &[(path, text)]), wanted);
    }

    #[test]
    fn an_impure_decision_is_found() {
        check(
            "crates/semel/src/decide.rs",
            "//! No async here.\nasync fn a() {}\nuse std::time::Instant;\n",
            &[2, 3],
        );
    }

    #[test]
    fn a_record_that_serialises_itself_is_found() {
        check("crates/semel/src/record.rs", "#[derive(serde::Serialize)]\nstruct A;\n", &[1, 1]);
    }

    #[test]
    fn an_http_type_in_the_engine_is_found() {
        check("crates/semel/src/wire.rs", "use http::Method;\nuse semel_http::Layer;\n", &[1]);
    }

    #[test]
    fn a_driver_code_outside_its_room_is_found() {
        check(
            "crates/semel-sqlite/src/store.rs",
            "match code { ErrorCode::DiskFull => {} }\n",
            &[1],
        );
        check(
            "crates/semel-sqlite/src/error.rs",
            "match code { ErrorCode::DiskFull => {} }\n",
            &[],
        );
    }
}
