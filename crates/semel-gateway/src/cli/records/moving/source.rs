//! Reading an export, line by line, and finding out whether it is whole.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use semel::{Record, store::capability::AuditRow};
use sha2::{Digest, Sha256};

use super::{
    Tally,
    line::{End, Head, Line, Peek, VERSION},
};
use crate::cli::{exit::Failure, show::hex};

/// The longest line: the largest outcome in base64, and room for all else.
const LINE_MAX: u64 = 96 * 1024 * 1024;

/// What comes out of an export, behind its first line.
pub(super) enum Item {
    Audit(AuditRow),
    Record(Box<Record>),
}

/// An export that is being read.
pub(super) struct Source {
    from: Box<dyn BufRead>,
    /// What the messages call it.
    name: String,
    line: Vec<u8>,
    nr: u64,
    digest: Sha256,
    /// What came so far.
    pub(super) tally: Tally,
    pub(super) rows: u64,
}

impl Source {
    /// Opens a file, or the standard input.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self::of(
                Box::new(BufReader::new(io::stdin())),
                "the standard input".into(),
            ));
        };
        let name = path.display().to_string();
        let file = File::open(path)
            .map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
        Ok(Self::of(Box::new(BufReader::with_capacity(1 << 20, file)), name))
    }

    pub(super) fn of(from: Box<dyn BufRead>, name: String) -> Self {
        Self {
            from,
            name,
            line: Vec::new(),
            nr: 0,
            digest: Sha256::new(),
            tally: Tally::default(),
            rows: 0,
        }
    }

    /// Reads the first line.
    pub(super) fn head(&mut self) -> Result<Head, Failure> {
        self.read()?;
        let none = |_| self.wrong("this is no export of semel's records");
        let peek: Peek = serde_json::from_slice(&self.line).map_err(none)?;
        if peek.semel_records > VERSION {
            return Err(Failure::refused(format!(
                "{} was written by semel {} in version {} of the format, and this semel {} reads up to \
                 version {VERSION}: import it with that one",
                self.name,
                peek.semel,
                peek.semel_records,
                env!("CARGO_PKG_VERSION"),
            )));
        }
        let head = serde_json::from_slice(&self.line);
        let head = head.map_err(|error| self.wrong(&error.to_string()))?;
        self.digest.update(&self.line);
        Ok(head)
    }

    /// Reads what comes next; `None` when the export was read to its end and is whole.
    pub(super) fn next(&mut self) -> Result<Option<Item>, Failure> {
        self.read()?;
        let line = serde_json::from_slice(&self.line);
        let line = line.map_err(|error| self.wrong(&error.to_string()))?;
        let item = match line {
            Line::End(end) => return self.end(&end).map(|()| None),
            Line::Audit(row) => {
                self.rows += 1;
                row.row().map(Item::Audit)
            }
            Line::Record(kept) => kept.record().map(|record| {
                self.tally.count(record.state);
                Item::Record(Box::new(record))
            }),
        };
        let item = item.map_err(|part| self.wrong(&format!("its {part} cannot be read")))?;
        self.digest.update(&self.line);
        Ok(Some(item))
    }

    fn end(&mut self, end: &End) -> Result<(), Failure> {
        let digest = std::mem::take(&mut self.digest).finalize();
        if (end.records, end.audit) != (self.tally, self.rows) || end.sha256 != hex(digest) {
            return Err(self.wrong("what came before is not what was written: export again"));
        }
        let mut more = [0];
        if self.from.read(&mut more)? > 0 {
            return Err(self.wrong("something stands behind the end"));
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Failure> {
        self.line.clear();
        self.nr += 1;
        let mut bounded = (&mut self.from).take(LINE_MAX);
        let read = bounded.read_until(b'\n', &mut self.line);
        read.map_err(|error| self.wrong(&error.to_string()))?;
        if self.line.last() == Some(&b'\n') {
            return Ok(());
        }
        Err(Failure::refused(format!(
            "{} is cut: it ends in line {} without the line that ends it; export again",
            self.name, self.nr
        )))
    }

    fn wrong(&self, why: &str) -> Failure {
        Failure::refused(format!("{}, line {}: {why}", self.name, self.nr))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use semel::{
        Fence, Fingerprint, IntentId, Lease, Outcome, Permit, Scope, State, Timestamp, Token,
        fingerprint::PlanId, outcome::Pointer, store::capability::AuditKind,
    };

    use super::{
        super::line::{Kept, Row},
        *,
    };

    const GOLDEN_V1: &str = include_str!("testdata/export.v1.jsonl");

    fn id(tenant: &str) -> IntentId {
        let scope = Scope::new(tenant.parse().unwrap(), "pay".parse().unwrap());
        scope.intent("k".parse().unwrap())
    }

    fn plain() -> Record {
        let token = Token::from_bytes([1; 16]);
        Record::held_by(&Permit { id: id("acme"), token, fence: Fence::new(7), incarnation: 0 })
    }

    /// A record with something in every place.
    fn full() -> Record {
        let at = |seconds: u64| Timestamp::from_micros(1_769_860_000_000_000 + seconds * 500_000);
        let outcome = Outcome::new(201, "{\"id\":7}\n")
            .header("content-type", "application/json")
            .header("link", "</a>; rel=next")
            .header("link", "</b>; rel=prev")
            .pointer("payment", "pay_7");
        Record {
            id: id("ä b").narrowed([7; 32]),
            state: State::Failed,
            token: Token::from_bytes([1; 16]),
            fence: Fence::new(1_769_860_700_000_000),
            fingerprint: Fingerprint::new(PlanId::new([3; 8]), [9; 32]),
            lease: Lease { renewed_at: at(1_400), length: Duration::from_secs(30) },
            takeovers: 2,
            compare: true,
            incarnation: 5,
            created_at: at(1_200),
            claimed_at: at(1_400),
            settled_at: Some(at(1_401)),
            claimed_by: Some("request-1".into()),
            reason: Some("resolved".into()),
            resolved_by: Some([4; 16]),
            outcome: Some(outcome),
            pointer: Some(Pointer { kind: "payment".into(), id: "pay_7".into() }),
            replay_until: at(174_201),
            remember_until: Timestamp::MAX,
        }
    }

    fn row() -> AuditRow {
        AuditRow {
            id: id("acme"),
            at: Timestamp::from_micros(5),
            kind: AuditKind::Resolve,
            actor: "ada".into(),
            note: "done: \"asked\"\n".into(),
        }
    }

    fn of(text: &'static str) -> Source {
        Source::of(Box::new(text.as_bytes()), "golden".into())
    }

    #[test]
    fn what_version_1_wrote_is_read_for_ever() {
        let mut source = of(GOLDEN_V1);
        let head = source.head().unwrap();
        assert_eq!((head.records, head.floor), (2, 1_769_000_000_000_000));
        for wanted in [plain(), full()] {
            let Some(Item::Record(record)) = source.next().unwrap() else { panic!("no record") };
            assert_eq!(*record, wanted);
        }
        let Some(Item::Audit(read)) = source.next().unwrap() else { panic!("no row") };
        assert_eq!(read, row());
        assert!(source.next().unwrap().is_none());
    }

    #[test]
    fn this_version_writes_version_1() {
        let lines = [
            Line::Record(Box::new(Kept::of(&plain()))),
            Line::Record(Box::new(Kept::of(&full()))),
            Line::Audit(Row::of(&row())),
        ];
        let written = lines.map(|line| serde_json::to_string(&line).unwrap());
        assert_eq!(GOLDEN_V1.lines().skip(1).take(3).collect::<Vec<_>>(), written);
    }

    #[test]
    fn a_flipped_bit_in_any_line_is_noticed() {
        for at in (0..GOLDEN_V1.len()).step_by(7) {
            let mut bytes = GOLDEN_V1.as_bytes().to_vec();
            bytes[at] ^= 1;
            let mut source = Source::of(Box::new(io::Cursor::new(bytes)), "flipped".into());
            let read = source.head().and_then(|_| {
                while source.next()?.is_some() {}
                Ok(())
            });
            assert!(read.is_err(), "byte {at}");
        }
    }
}
