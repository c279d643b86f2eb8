//! The report for a program: one JSON document with everything that was sent and answered.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{Ended, Outcome, Report, Verdict};
use crate::{
    http::{Answer, Exchange, Got},
    plan::Contract,
};

/// The version of the document. Members may be added; none changes its meaning without a new number.
pub const FORMAT: u32 = 1;

impl Report {
    /// Returns the report as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let counts = self.counts();
        let rules: Vec<_> = self.verdicts.iter().map(|verdict| self.rule_json(verdict)).collect();
        json!({
            "format": FORMAT,
            "name": self.name,
            "target": self.target,
            "contract": self.contract.map(Contract::word),
            "seed": self.seed.to_string(),
            "took_ms": millis(self.took),
            "interrupted": self.interrupted,
            "not_reached": self.not_reached,
            "outcome": match self.outcome() {
                Outcome::Kept => "kept",
                Outcome::Broken => "broken",
                Outcome::NotFoundOut => "not-found-out",
            },
            "counts": {
                "kept": counts.kept,
                "broken": counts.broken,
                "failed": counts.failed,
                "not_tried": counts.not_tried,
            },
            "rules": rules,
        })
    }

    fn rule_json(&self, verdict: &Verdict) -> Value {
        let effects = verdict.effects.iter();
        let effects = effects.map(|(intent, count)| json!({ "intent": intent, "count": count }));
        let exchanges = verdict.exchanges.iter().map(|exchange| self.exchange_json(exchange));
        json!({
            "rule": verdict.rule.name,
            "says": verdict.rule.says,
            "verdict": match verdict.ended {
                Ended::Kept => "kept",
                Ended::Broken(_) => "broken",
                Ended::NotTried(_) => "not-tried",
                Ended::Failed(_) => "failed",
            },
            "seen": self.secrets.masked(&verdict.seen),
            "effects": effects.collect::<Vec<_>>(),
            "exchanges": exchanges.collect::<Vec<_>>(),
        })
    }

    fn exchange_json(&self, exchange: &Exchange) -> Value {
        let request = &exchange.request;
        let mut sent = Map::new();
        sent.insert("method".into(), request.method.clone().into());
        sent.insert("path".into(), self.secrets.masked(&request.path).into());
        sent.insert("headers".into(), self.headers_json(&request.headers));
        self.put_body(&mut sent, &request.body);
        let mut whole = Map::new();
        whole.insert("what".into(), self.secrets.masked(&exchange.what).into());
        whole.insert("sent_at_ms".into(), millis(exchange.sent_at).into());
        whole.insert("took_ms".into(), millis(exchange.took).into());
        whole.insert("request".into(), sent.into());
        let got = match &exchange.got {
            Got::Answer(answer) => {
                whole.insert("answer".into(), self.answer_json(answer));
                "answer"
            }
            Got::Swallowed(answer) => {
                whole.insert("answer".into(), self.answer_json(answer));
                "swallowed"
            }
            Got::Broken(why) => {
                whole.insert("why".into(), self.secrets.masked(why).into());
                "broken"
            }
            Got::HungUp => "hung-up",
            Got::TimedOut => "timed-out",
        };
        whole.insert("got".into(), got.into());
        whole.into()
    }

    fn answer_json(&self, answer: &Answer) -> Value {
        let mut whole = Map::new();
        whole.insert("status".into(), answer.status.into());
        whole.insert("headers".into(), self.headers_json(&answer.headers));
        self.put_body(&mut whole, &answer.body);
        whole.into()
    }

    fn headers_json(&self, headers: &[(String, String)]) -> Value {
        let masked = headers.iter().map(|(name, value)| {
            let value = self.secrets.masked_header(name, value);
            json!([name, value])
        });
        masked.collect()
    }

    /// Bytes that are no UTF-8 go as base64.
    fn put_body(&self, whole: &mut Map<String, Value>, body: &[u8]) {
        match std::str::from_utf8(body) {
            Ok(text) => whole.insert("body".into(), self.secrets.masked(text).into()),
            Err(_) => {
                let body = self.secrets.masked_bytes(body);
                whole.insert("body_base64".into(), STANDARD.encode(body).into())
            }
        };
    }
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
