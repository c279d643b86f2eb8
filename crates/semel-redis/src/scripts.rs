//! The scripts: one for each step that must be atomic. The server keeps them by the digest of their text, so that
//! two versions of Semel beside each other run each its own.
//!
//! They are no function library: a library would have to be loaded into every node of a cluster, also one that joins
//! later, by whoever may write there. A script that a node does not know is sent whole, once, and runs at once.
//!
//! Every run makes the local functions of its script anew, so that the quick ones begin with no more than they need.

use redis::Script as Text;

/// What all scripts begin with, but for the clock.
const STEP: &str = include_str!("../scripts/step.lua");
/// What those begin with besides that do seldom things.
const PRELUDE: &str = include_str!("../scripts/prelude.lua");
/// What all scripts end with: their last argument comes back beside the answer, so that nobody takes the answer to
/// another call for his.
const SIGNED: &str = "return { ARGV[#ARGV], answer() }";
/// Stands where the body of the clock goes.
const CLOCK: &str = "--[[clock]]";
/// The time of the server.
const SERVER_CLOCK: &str = "  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])";

/// A script, and the digest by which a server knows it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: Box<str>,
    pub(crate) digest: Box<str>,
}

/// All scripts.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) bring: Script,
    pub(crate) claim: Script,
    pub(crate) close: Script,
    pub(crate) complete: Script,
    pub(crate) count: Script,
    pub(crate) drop: Script,
    pub(crate) due: Script,
    pub(crate) note: Script,
    pub(crate) raise: Script,
    pub(crate) read: Script,
    pub(crate) recall: Script,
    pub(crate) renew: Script,
    pub(crate) swap: Script,
    pub(crate) watch: Script,
}

impl Scripts {
    /// Puts them together with the body of the function that tells the time.
    pub(crate) fn new(clock: Option<&str>) -> Self {
        let step = STEP.replace(CLOCK, clock.unwrap_or(SERVER_CLOCK));
        let script = |begin: &str, body: &str| {
            let text = format!("{step}\n{begin}\nlocal function answer()\n{body}end\n{SIGNED}");
            let digest = Text::new(&text).get_hash().into();
            Script { text: text.into(), digest }
        };
        Self {
            bring: script(PRELUDE, include_str!("../scripts/move/bring.lua")),
            claim: script("", include_str!("../scripts/record/claim.lua")),
            close: script(PRELUDE, include_str!("../scripts/move/close.lua")),
            complete: script("", include_str!("../scripts/record/complete.lua")),
            count: script(PRELUDE, include_str!("../scripts/record/count.lua")),
            drop: script(PRELUDE, include_str!("../scripts/record/drop.lua")),
            due: script(PRELUDE, include_str!("../scripts/record/due.lua")),
            note: script(PRELUDE, include_str!("../scripts/audit/note.lua")),
            raise: script(PRELUDE, include_str!("../scripts/move/raise.lua")),
            read: script("", include_str!("../scripts/record/read.lua")),
            recall: script(PRELUDE, include_str!("../scripts/audit/recall.lua")),
            renew: script("", include_str!("../scripts/record/renew.lua")),
            swap: script(PRELUDE, include_str!("../scripts/record/swap.lua")),
            watch: script("", include_str!("../scripts/record/watch.lua")),
        }
    }
}
