//! Which operation a request belongs to: by method and path template.
//!
//! A template is made of segments: literal text, `{name}` for one segment that is not empty, and at
//! the end `{*rest}` for one or more. A literal is compared with the decoded segment, so that
//! `/%70ayments` is not a way around `/payments`. A trailing slash is a segment of its own: `/a/` is
//! not `/a`. Where two templates meet on some path, the one that is more exact in every segment wins;
//! if neither is, the set refuses to build.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use http::Method;
use semel::fingerprint::PlanError;
use thiserror::Error;

use crate::{capture::HeaderRuleError, operation::Operation};

/// Says why a set of operations cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// Two templates match the same path, and neither is more exact.
    #[error("{first:?} and {second:?} both match some path of {method}, and neither is more exact")]
    Ambiguous {
        /// The method.
        method: Method,
        /// One template.
        first: String,
        /// The other.
        second: String,
    },
    /// Two operations have one name.
    #[error("two operations are named {name}")]
    Duplicate {
        /// The name.
        name: semel::Operation,
    },
    /// The rules for the headers of an outcome cannot be used.
    #[error("operation {name}")]
    Headers {
        /// The operation.
        name: semel::Operation,
        /// Why.
        #[source]
        source: HeaderRuleError,
    },
    /// An operation matches nothing.
    #[error("operation {name} has no method and path")]
    Nowhere {
        /// The operation.
        name: semel::Operation,
    },
    /// The plans of an operation do not fit together.
    #[error("operation {name}")]
    Plan {
        /// The operation.
        name: semel::Operation,
        /// Why.
        #[source]
        source: PlanError,
    },
    /// A setting lies outside its bounds.
    #[error("operation {name}: {what}")]
    Setting {
        /// The operation.
        name: semel::Operation,
        /// Which, and why.
        what: &'static str,
    },
    /// A path template cannot be read.
    #[error("the path template {template:?} {why}")]
    Template {
        /// The template.
        template: String,
        /// Why.
        why: &'static str,
    },
}

impl RouteError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Ambiguous { .. } => "route-ambiguous",
            Self::Duplicate { .. } => "route-duplicate",
            Self::Headers { .. } => "outcome-header",
            Self::Nowhere { .. } => "route-nowhere",
            Self::Plan { source, .. } => source.code(),
            Self::Setting { .. } => "operation-setting",
            Self::Template { .. } => "route-template",
        }
    }
}

/// A set of operations, matched by method and path.
#[derive(Clone, Debug, Default)]
pub struct Operations {
    all: Vec<Arc<Operation>>,
    routes: Vec<Route>,
}

/// The operation that a request belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'a> {
    /// The operation.
    pub operation: &'a Arc<Operation>,
    /// The template that matched, as it was written.
    pub template: &'a str,
}

impl Operations {
    /// Puts a set together.
    ///
    /// # Errors
    ///
    /// Refuses templates that cannot be read or that are ambiguous, names that stand twice, and
    /// settings that cannot be used.
    pub fn new(operations: impl IntoIterator<Item = Operation>) -> Result<Self, RouteError> {
        let mut set = Self::default();
        let mut names = HashSet::new();
        for operation in operations {
            let name = operation.name.clone();
            if !names.insert(name.clone()) {
                return Err(RouteError::Duplicate { name });
            }
            let operation = operation.checked()?;
            for (method, template) in &operation.routes {
                let at = set.all.len();
                set.add(Route {
                    method: method.clone(),
                    template: Template::parse(template)?,
                    at,
                })?;
            }
            set.all.push(Arc::new(operation));
        }
        // The more exact comes first, so that the first match is the one that counts.
        set.routes.sort_by_key(|route| std::cmp::Reverse(route.template.exactness()));
        Ok(set)
    }

    /// Finds the operation that a request belongs to.
    #[must_use]
    pub fn find(&self, method: &Method, path: &str) -> Option<Matched<'_>> {
        let route = self
            .routes
            .iter()
            .find(|route| route.method == *method && route.template.matches(path))?;
        Some(Matched { operation: &self.all[route.at], template: &route.template.text })
    }

    /// Finds an operation by its name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Operation>> {
        self.all.iter().find(|operation| operation.name.as_str() == name)
    }

    /// Returns every operation, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.all.iter().map(|operation| &**operation)
    }

    /// Finds the operation of a path whose segments are written plainly, as small letters.
    pub(crate) fn near(&self, method: &Method, plain: &[String]) -> Option<&Operation> {
        let mut routes = self.routes.iter();
        let route =
            routes.find(|route| route.method == *method && route.template.is_near(plain))?;
        Some(&self.all[route.at])
    }

    fn add(&mut self, new: Route) -> Result<(), RouteError> {
        let clash = self.routes.iter().find(|route| {
            route.method == new.method && route.template.is_ambiguous_with(&new.template)
        });
        if let Some(clash) = clash {
            return Err(RouteError::Ambiguous {
                method: new.method,
                first: clash.template.text.clone(),
                second: new.template.text,
            });
        }
        self.routes.push(new);
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Route {
    method: Method,
    template: Template,
    at: usize,
}

/// A segment, from the least to the most exact.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Segment {
    Rest,
    One,
    Literal(Box<str>),
}

#[derive(Clone, Debug)]
struct Template {
    text: String,
    segments: Vec<Segment>,
}

impl Template {
    fn parse(text: &str) -> Result<Self, RouteError> {
        let bad = |why| RouteError::Template { template: text.to_owned(), why };
        let Some(below) = text.strip_prefix('/') else {
            return Err(bad("does not begin with a slash"));
        };
        let mut segments = Vec::new();
        for part in below.split('/') {
            if segments.last() == Some(&Segment::Rest) {
                return Err(bad("has something after its rest"));
            }
            segments.push(match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                Some(name) if !is_name(name.strip_prefix('*').unwrap_or(name)) => {
                    return Err(bad("has a segment without a name of letters, digits and _"));
                }
                Some(name) if name.starts_with('*') => Segment::Rest,
                Some(_) => Segment::One,
                None if part.contains(['{', '}', '?', '#', '*', '%']) => {
                    return Err(bad("has a literal segment with one of { } ? # * %"));
                }
                None => Segment::Literal(part.into()),
            });
        }
        Ok(Self { text: text.to_owned(), segments })
    }

    fn matches(&self, path: &str) -> bool {
        let Some(below) = path.strip_prefix('/') else {
            return false;
        };
        let mut parts = below.split('/');
        for segment in &self.segments {
            let Some(part) = parts.next() else {
                return false;
            };
            match segment {
                Segment::Rest => return !part.is_empty() || parts.next().is_some(),
                Segment::One if part.is_empty() => return false,
                Segment::One => {}
                Segment::Literal(text) if **text == *part => {}
                Segment::Literal(text) if part.contains('%') && **text == *decoded(part) => {}
                Segment::Literal(_) => return false,
            }
        }
        parts.next().is_none()
    }

    /// Says whether it would match, were it written as plainly as the path.
    fn is_near(&self, plain: &[String]) -> bool {
        let is_slash =
            |segment: &Segment| matches!(segment, Segment::Literal(text) if text.is_empty());
        let own = match self.segments.as_slice() {
            [own @ .., last] if is_slash(last) => own,
            own => own,
        };
        let mut parts = plain.iter();
        for segment in own {
            let fits = match (segment, parts.next()) {
                (Segment::Rest, part) => return part.is_some(),
                (_, None) => false,
                (Segment::One, Some(part)) => !part.is_empty(),
                (Segment::Literal(text), Some(part)) => text.eq_ignore_ascii_case(part),
            };
            if !fits {
                return false;
            }
        }
        parts.next().is_none()
    }

    /// Says whether both match some path and neither is at least as exact in every segment.
    fn is_ambiguous_with(&self, other: &Self) -> bool {
        let (mut more, mut less) = (false, false);
        let mut pairs = self.segments.iter().zip(&other.segments);
        for (own, theirs) in &mut pairs {
            match (own, theirs) {
                (Segment::Literal(own), Segment::Literal(theirs)) if own != theirs => return false,
                (Segment::Rest, Segment::Rest) => return more == less,
                (Segment::Rest, _) => return more,
                (_, Segment::Rest) => return less,
                (Segment::Literal(text), Segment::One) | (Segment::One, Segment::Literal(text))
                    if text.is_empty() =>
                {
                    return false;
                }
                (Segment::Literal(_), Segment::One) => more = true,
                (Segment::One, Segment::Literal(_)) => less = true,
                (Segment::Literal(_), Segment::Literal(_)) | (Segment::One, Segment::One) => {}
            }
        }
        self.segments.len() == other.segments.len() && more == less
    }

    /// Orders templates so that of two that match one path the more exact is larger.
    fn exactness(&self) -> (Vec<u8>, usize) {
        let rank = |segment: &Segment| match segment {
            Segment::Rest => 0,
            Segment::One => 1,
            Segment::Literal(_) => 2,
        };
        (self.segments.iter().map(rank).collect(), self.segments.len())
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Decodes the percent escapes of one segment; what is no escape stays.
pub(crate) fn decoded(segment: &str) -> Cow<'_, str> {
    if !segment.contains('%') {
        return Cow::Borrowed(segment);
    }
    String::from_utf8_lossy(&unescaped(segment.as_bytes(), false)).into_owned().into()
}

/// Decodes percent escapes, and `+` as a blank where forms are read; what is no escape stays.
pub(crate) fn unescaped(text: &[u8], plus: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        let pair = after.first_chunk::<2>().and_then(|[high, low]| Some((hex(*high)?, hex(*low)?)));
        out.push(match (byte, pair) {
            (b'%', Some((high, low))) => {
                rest = &after[2..];
                high << 4 | low
            }
            (b'+', _) if plus => b' ',
            (byte, _) => *byte,
        });
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(templates: &[&str]) -> Result<Operations, RouteError> {
        Operations::new(templates.iter().enumerate().map(|(at, template)| {
            Operation::new(format!("op{at}")).unwrap().on(Method::POST, *template)
        }))
    }

    fn finds(templates: &[&str], path: &str, wanted: Option<&str>) {
        let set = set(templates).unwrap();
        let found = set.find(&Method::POST, path).map(|matched| matched.template);
        assert_eq!(found, wanted, "{path} in {templates:?}");
        assert!(set.find(&Method::GET, path).is_none());
    }

    #[test]
    fn a_path_belongs_to_the_most_exact_template() {
        let all = ["/a/{id}", "/a/b", "/a/{id}/c", "/{*rest}", "/a/{*rest}"];
        finds(&all, "/a/b", Some("/a/b"));
        finds(&all, "/a/x", Some("/a/{id}"));
        finds(&all, "/a/x/c", Some("/a/{id}/c"));
        finds(&all, "/a/x/d", Some("/a/{*rest}"));
        finds(&all, "/a/x/", Some("/a/{*rest}"));
        finds(&all, "/z", Some("/{*rest}"));
        finds(&all, "/", None);
        finds(&["/"], "/", Some("/"));
        finds(&["/a"], "/a/", None);
        finds(&["/a/{id}"], "/a/", None);
    }

    #[test]
    fn an_escaped_literal_is_no_way_around() {
        finds(&["/payments"], "/%70ayments", Some("/payments"));
        finds(&["/payments"], "/payments%2F", None);
        finds(&["/payments"], "/payments%2", None);
    }

    #[test]
    fn templates_that_meet_and_are_not_more_exact_are_refused() {
        for clash in [
            ["/a/{x}", "/a/{y}"],
            ["/{x}/b", "/a/{y}"],
            ["/{*a}", "/{*b}"],
            ["/{x}/b/{*r}", "/a/{*r}"],
        ] {
            assert!(matches!(set(&clash), Err(RouteError::Ambiguous { .. })), "{clash:?}");
        }
        for fine in [["/a/{x}", "/b/{y}"], ["/{x}/b", "/{y}/c"], ["/a/{x}/{*r}", "/a/{*r}"]] {
            assert!(set(&fine).is_ok(), "{fine:?}");
        }
    }

    #[test]
    fn templates_that_cannot_be_read_are_refused() {
        for bad in ["a", "", "/{}", "/{*}", "/{*r}/a", "/a{b}", "/a?b", "/{a-b}", "/a%20b"] {
            assert!(matches!(set(&[bad]), Err(RouteError::Template { .. })), "{bad}");
        }
    }

    #[test]
    fn a_name_stands_once() {
        let twice = ["/a", "/b"].map(|path| Operation::new("x").unwrap().on(Method::POST, path));
        assert!(matches!(Operations::new(twice), Err(RouteError::Duplicate { .. })));
        let nowhere = Operations::new([Operation::new("x").unwrap()]);
        assert!(matches!(nowhere, Err(RouteError::Nowhere { .. })));
    }
}
