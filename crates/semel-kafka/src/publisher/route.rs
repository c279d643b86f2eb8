//! Which topic an event goes to.

use crate::error::Error;

/// What stands for the type of the aggregate, as in Debezium's router.
const KIND: &str = "${aggregatetype}";
/// The longest name of a topic.
const NAME_MAX: usize = 249;

/// A name of topics, with or without a place for the type of the aggregate.
#[derive(Debug)]
pub(super) struct Route {
    before: Box<str>,
    after: Option<Box<str>>,
}

impl Route {
    pub(super) fn new(template: &str) -> Result<Self, Error> {
        let (before, after) = match template.split_once(KIND) {
            Some((before, after)) => (before, Some(after)),
            None => (template, None),
        };
        let bad = |text: &str| text.chars().any(|c| !allowed(c));
        if template.is_empty() || bad(before) || after.is_some_and(bad) {
            let why = format!(
                "{template:?} names no topic: letters, digits, `.`, `_`, `-` and at most once {KIND}"
            );
            return Err(Error::invalid(why));
        }
        Ok(Self { before: before.into(), after: after.map(Into::into) })
    }

    /// Returns the topic for a type of aggregate, or why it can be none.
    pub(super) fn topic(&self, kind: &str) -> Result<String, String> {
        let Some(after) = &self.after else { return Ok(self.before.as_ref().to_owned()) };
        let topic = format!("{}{kind}{after}", self.before);
        match topic.chars().all(allowed) && topic.len() <= NAME_MAX && !topic.starts_with("..") {
            true => Ok(topic),
            false => Err(format!("no topic can be named {topic:?}")),
        }
    }

    /// Returns the topic if there is only one.
    pub(super) fn only(&self) -> Option<&str> {
        self.after.is_none().then_some(&self.before)
    }

    /// Says whether other events may go to other topics.
    pub(super) const fn is_many(&self) -> bool {
        self.after.is_some()
    }
}

const fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_the_aggregate_names_the_topic_as_debezium_has_it() {
        let route = Route::new("outbox.event.${aggregatetype}").unwrap();
        assert_eq!(route.topic("order").as_deref(), Ok("outbox.event.order"));
        assert!(route.topic("an order").is_err() && route.topic(&"x".repeat(240)).is_err());
        let one = Route::new("orders").unwrap();
        assert_eq!((one.topic("an order").as_deref(), one.only()), (Ok("orders"), Some("orders")));
        for bad in ["", "a b", "${aggregateid}", "${aggregatetype}.${aggregatetype}"] {
            assert!(Route::new(bad).is_err(), "{bad}");
        }
    }
}
