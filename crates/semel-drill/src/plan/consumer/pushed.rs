//! A message as the request by which it is pushed, and what its answers mean.

use std::collections::BTreeMap;

use semel::wire;

use super::{BatchSpec, ConsumerPlan, Format};
use crate::plan::{
    AnswersSpec, Bounds, Contract, EffectsSpec, KeySpec, KeyStyle, LifetimeSpec, Names, Plan,
    RequestSpec, Variants, fill, schema::Value, template::replaced,
};

/// Statuses that ask for the message again, among those of the 4xx.
const AGAIN: [u16; 4] = [408, 409, 425, 429];

const ALL_ABSENT: &str = "all of its settings can be absent";

impl ConsumerPlan {
    /// Returns the plan of the requests that push messages, as the machinery of HTTP asks them: the key
    /// is the message's id.
    pub(crate) fn pushed(&self) -> Plan {
        let bounds = &self.bounds;
        let by_id = |text: &Option<String>| text.as_deref().map(by_key);
        Plan {
            name: self.name.clone(),
            target: self.target.clone(),
            contract: Contract::Ietf,
            key: KeySpec {
                header: Some(String::new()),
                style: Some(KeyStyle::Uuid),
                max_length: None,
                required: Some(false),
            },
            request: self.request(),
            variants: Variants {
                changed: by_id(&self.variants.changed),
                slow: by_id(&self.variants.slow),
                refused: None,
                reformatted: None,
                twins: None,
            },
            other: None,
            tenant: None,
            effects: self.effects.by_key(),
            resource: None,
            lifetime: LifetimeSpec::absent().expect(ALL_ABSENT),
            process: self.process.clone(),
            answers: self.statuses(),
            bounds: Bounds {
                racers: bounds.racers,
                storm: bounds.storm,
                answer_wait: bounds.answer_wait,
                patience: bounds.patience,
                seed: bounds.seed,
            },
            secrets: self.secrets.clone(),
        }
    }

    fn request(&self) -> RequestSpec {
        let message = &self.message;
        let own = |name: &str| message.headers.keys().any(|own| own.eq_ignore_ascii_case(name));
        let format = self.format_headers().into_iter().filter(|(name, _)| !own(name));
        let mut headers: BTreeMap<_, _> =
            format.map(|(name, value)| (name.to_owned(), value)).collect();
        headers.extend(message.headers.iter().map(|(name, value)| (name.clone(), by_key(value))));
        RequestSpec {
            method: message.method.clone(),
            path: by_key(&message.path),
            headers,
            body: by_key(&message.body),
        }
    }

    /// The headers of the format, as templates.
    fn format_headers(&self) -> Vec<(&'static str, String)> {
        let MessageNames { id, subject, version } = MessageNames::new();
        let events = || {
            vec![
                (wire::CE_ID, id.clone()),
                (wire::CE_SPECVERSION, "1.0".to_owned()),
                (wire::CE_TYPE, self.message.event.clone()),
                (wire::CE_SOURCE, self.message.source.clone()),
                (wire::CE_SUBJECT, subject.clone()),
            ]
        };
        match self.message.format {
            Format::Plain => Vec::new(),
            Format::CloudEvents => events(),
            Format::Relay => {
                let more = [(wire::IDEMPOTENCY_KEY, id.clone()), (wire::CE_VERSION, version)];
                events().into_iter().chain(more).collect()
            }
        }
    }

    fn statuses(&self) -> AnswersSpec {
        let answers = &self.answers;
        let is_refused = |status: &u16| match &answers.refused {
            Some(refused) => refused.contains(status),
            None => !AGAIN.contains(status),
        };
        let acknowledged =
            answers.acknowledged.clone().unwrap_or_else(|| (200..300).collect::<Vec<_>>());
        let again =
            (400..500).filter(|status| !is_refused(status) && !acknowledged.contains(status));
        AnswersSpec {
            retry: Some(again.collect()),
            first: Some(acknowledged),
            mismatch: Some(Vec::new()),
            in_progress: Some(Vec::new()),
            missing_key: Some(Vec::new()),
            bad_key: Some(Vec::new()),
            late: Some(Vec::new()),
            ..AnswersSpec::absent().expect(ALL_ABSENT)
        }
    }
}

impl BatchSpec {
    /// Returns the request that pushes these messages at once.
    pub(crate) fn request(&self, method: &str, messages: &[Names]) -> RequestSpec {
        let items: Vec<_> = messages.iter().map(|names| fill(&by_key(&self.item), names)).collect();
        RequestSpec {
            method: method.to_owned(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            body: format!("{}{}{}", self.start, items.join(&self.between), self.end),
        }
    }
}

impl EffectsSpec {
    fn by_key(&self) -> Self {
        Self {
            url: self.url.as_deref().map(by_key),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), by_key(value)))
                .collect(),
            pointer: by_key(&self.pointer),
            ..self.clone()
        }
    }
}

/// What the headers of a format name.
struct MessageNames {
    id: String,
    subject: String,
    version: String,
}

impl MessageNames {
    fn new() -> Self {
        let name = |name: &str| format!("{{{{{name}}}}}");
        Self { id: name("key"), subject: name("aggregate"), version: name("sequence") }
    }
}

/// Lets a text name the message's id as what the machinery of HTTP calls the key.
pub(crate) fn by_key(text: &str) -> String {
    replaced(text, |name| (name == "id").then(|| "{{key}}".to_owned()))
}
