//! The API's state: its orders, what was done, and its keys; in memory, or in a file that a kill leaves whole.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::{Fault, keys::Name};

/// An answer as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    pub(super) body: String,
}

/// What is known of a key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) content: String,
    /// Nothing while the first runs.
    pub(super) kept: Option<Kept>,
    pub(super) since: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Shop {
    pub(super) fault: Option<Fault>,
    /// How long an outcome is replayed; for ever if nothing.
    pub(super) replay_for: Option<Duration>,
    file: Option<PathBuf>,
    /// Orders by id; nothing once they are deleted.
    orders: BTreeMap<u64, Option<Value>>,
    effects: HashMap<String, u64>,
    pub(super) keys: HashMap<Name, Entry>,
}

impl Shop {
    pub(super) fn open(fault: Option<Fault>, file: Option<PathBuf>) -> Self {
        let mut shop = Self { fault, file, ..Self::default() };
        let text = shop.file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        if let Some(text) = text {
            shop.load(&serde_json::from_str(&text).unwrap());
        }
        shop
    }

    /// Does what is asked: makes an order. The answer is kept by the caller.
    pub(super) fn order(&mut self, body: &Value) -> Kept {
        let amount = &body["amount"];
        let refused = amount.as_i64().is_some_and(|amount| amount < 0);
        if !refused || self.fault == Some(Fault::ActsOnRefusal) {
            let intent = body["order"].as_str().unwrap_or_default().to_owned();
            *self.effects.entry(intent).or_default() += 1;
        }
        if refused {
            let body = json!({ "error": "the amount is below zero" }).to_string();
            return Kept { status: 402, location: None, body };
        }
        let id = u64::try_from(self.orders.len()).unwrap() + 1;
        let order = json!({ "id": id.to_string(), "order": body["order"], "amount": amount });
        self.orders.insert(id, Some(order.clone()));
        Kept { status: 201, location: Some(format!("/orders/{id}")), body: order.to_string() }
    }

    pub(super) fn change(&mut self, id: u64, amount: &Value) -> StatusCode {
        let Some(Some(order)) = self.orders.get_mut(&id) else { return StatusCode::NOT_FOUND };
        order["amount"] = amount.clone();
        self.save();
        StatusCode::OK
    }

    pub(super) fn delete(&mut self, id: u64) -> StatusCode {
        let found = self.orders.get_mut(&id).and_then(Option::take).is_some();
        self.save();
        if found { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
    }

    pub(super) fn count(&self, intent: &str) -> u64 {
        match self.fault {
            Some(Fault::CountsNothing) => 0,
            _ => self.effects.get(intent).copied().unwrap_or_default(),
        }
    }

    /// Answers a retry from what is kept.
    pub(super) fn replay(&mut self, kept: &Kept, body: &Value) -> Response {
        let id = kept.location.as_ref().and_then(|at| at.rsplit('/').next()?.parse::<u64>().ok());
        let now = id.and_then(|id| self.orders.get(&id)).cloned();
        match (self.fault, now) {
            (Some(Fault::ReplaysCurrent), Some(Some(order))) => {
                return answer(&Kept { body: order.to_string(), ..kept.clone() }, true);
            }
            (Some(Fault::ReplaysCurrent), Some(None)) => {
                return StatusCode::NOT_FOUND.into_response();
            }
            (Some(Fault::RecreatesDeleted), Some(None)) => return answer(&self.order(body), true),
            _ => {}
        }
        if self.fault == Some(Fault::PrettyReplays) {
            let value: Value = serde_json::from_str(&kept.body).unwrap();
            let body = serde_json::to_string_pretty(&value).unwrap();
            return answer(&Kept { body, ..kept.clone() }, true);
        }
        answer(kept, self.fault != Some(Fault::Unmarked))
    }

    /// Writes everything at once, so that a kill leaves the old or the new.
    pub(super) fn save(&self) {
        let Some(file) = &self.file else { return };
        let kept = self.fault != Some(Fault::KeysInMemory);
        let keys = self.keys.iter().filter_map(|(name, entry)| {
            let Kept { status, location, body } = entry.kept.as_ref().filter(|_| kept)?;
            Some(json!([name, entry.content, status, location, body]))
        });
        let keys: Vec<_> = keys.collect();
        let all = json!({ "orders": self.orders, "effects": self.effects, "keys": keys });
        let next = file.with_extension("next");
        std::fs::write(&next, all.to_string()).unwrap();
        std::fs::rename(&next, file).unwrap();
    }

    /// A run that was lost with the process had no effect, since both are written at once: its key is free.
    fn load(&mut self, all: &Value) {
        self.orders = serde_json::from_value(all["orders"].clone()).unwrap();
        self.effects = serde_json::from_value(all["effects"].clone()).unwrap();
        for key in all["keys"].as_array().unwrap() {
            let (name, content, status, location, body): (Name, _, _, _, _) =
                serde_json::from_value(key.clone()).unwrap();
            let kept = Some(Kept { status, location, body });
            self.keys.insert(name, Entry { content, kept, since: Instant::now() });
        }
    }
}

/// Makes an answer of what is kept.
pub(super) fn answer(kept: &Kept, replayed: bool) -> Response {
    let mut answer =
        Response::builder().status(kept.status).header(header::CONTENT_TYPE, "application/json");
    if let Some(location) = &kept.location {
        answer = answer.header(header::LOCATION, location);
    }
    if replayed {
        answer = answer.header("idempotent-replayed", "true");
    }
    answer.body(Body::from(kept.body.clone())).unwrap()
}
