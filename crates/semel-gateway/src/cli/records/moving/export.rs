//! `semel records export`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use semel::store::{BATCH_MAX, capability::Filter, moving::Closed};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    Bar, Running, Tally, audit,
    line::{End, Head, Kept, Line, Row},
    records, rows,
};
use crate::cli::{
    exit::{Exit, Failure, say},
    records::target::Desk,
    show::hex,
};

/// Writes all records of a closed store, and its audit, to a file or the standard output: for `semel records
/// import` into another store
#[derive(Args, Debug)]
pub(in crate::cli::records) struct Export {
    /// The file to make; the standard output without one
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Closes the store first
    #[arg(long)]
    close: bool,
    #[command(flatten)]
    running: Running,
}

impl Export {
    pub(in crate::cli::records) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let to = self.target()?;
        match desk.mover.standing().await?.closed {
            // A close that was cut short is ended: a store may have closed one part after the other.
            Some(Closed::Away) => {
                self.running.look(desk).await?;
                desk.mover.close(Closed::Away).await?;
            }
            Some(Closed::Arriving) => {
                return Err(Failure::refused(
                    "an import into this store has not come to its end: ask for it again first",
                ));
            }
            None if self.close => self.running.close(desk).await?,
            None => {
                return Err(Failure::refused(
                    "the store takes writes, and what is written behind an export is not in it: stop \
                     whoever uses the store, and say --close, which refuses whoever still does",
                ));
            }
        }
        let mut sink = Sink::open(to)?;
        let written = write(desk, &mut sink).await?;
        sink.close()?;
        let summary = written.summary(desk, self.output.as_deref());
        if self.output.is_some() {
            say(&summary)?;
        } else {
            eprintln!("{summary}");
        }
        Ok(Exit::Fine)
    }

    /// Refuses what would be lost or spilled.
    fn target(&self) -> Result<Option<&Path>, Failure> {
        match &self.output {
            None if io::stdout().is_terminal() => Err(Failure::usage(
                "say where to: --output FILE, or lead the standard output into a file or a program",
            )),
            Some(path) if path.exists() => {
                let name = path.display();
                Err(Failure::usage(format!("{name} is there already: remove it, or name another")))
            }
            path => Ok(path.as_deref()),
        }
    }
}

/// What was written.
struct Written {
    tally: Tally,
    rows: u64,
}

impl Written {
    fn summary(&self, desk: &Desk, file: Option<&Path>) -> String {
        let url = &desk.store.url;
        let file = file.map(|file| file.display().to_string());
        if desk.json {
            let (url, records, audit) = (url.to_string(), self.tally, self.rows);
            return json!({ "store": url, "records": records, "audit": audit, "file": file })
                .to_string();
        }
        let to = file.unwrap_or_else(|| "the standard output".into());
        let (records, rows) = (records(self.tally.total()), rows(self.rows));
        format!("{records} and {rows} went to {to}; {url} stays closed")
    }
}

async fn write(desk: &Desk, sink: &mut Sink) -> Result<Written, Failure> {
    let standing = desk.mover.standing().await?;
    let count = desk.records.counts().await?.total();
    let now = desk.records.now().await?;
    sink.put(&Head::new(desk.kind, now, count, standing.floor))?;
    let (mut tally, mut after) = (Tally::default(), None);
    let bar = Bar::of(desk.json, count, "export");
    let limit = u32::try_from(BATCH_MAX).unwrap_or(u32::MAX);
    loop {
        let page = desk.records.list(Filter { after, limit, ..Filter::default() }).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        for record in &page {
            tally.count(record.state);
            sink.put(&Line::Record(Box::new(Kept::of(record))))?;
        }
        bar.pass(page.len());
    }
    let mut audit = audit(desk).await?;
    // A store in many parts does not keep the order of its instants.
    audit.sort_by_key(|row| row.at);
    for row in &audit {
        sink.put(&Line::Audit(Row::of(row)))?;
    }
    if desk.mover.standing().await?.closed != Some(Closed::Away) {
        return Err(Failure::refused(
            "somebody opened the store meanwhile: what was exported may be old",
        ));
    }
    let rows = u64::try_from(audit.len()).unwrap_or(u64::MAX);
    sink.end(tally, rows)?;
    Ok(Written { tally, rows })
}

/// Where lines go. A file has its name only when all of it is on the disk.
struct Sink {
    to: Box<dyn Write>,
    file: Option<(File, PathBuf, PathBuf)>,
    digest: Sha256,
    line: Vec<u8>,
}

impl Sink {
    fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let (digest, line) = (Sha256::new(), Vec::new());
        let Some(path) = path else {
            let to = Box::new(BufWriter::with_capacity(1 << 20, io::stdout()));
            return Ok(Self { to, file: None, digest, line });
        };
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // Answers are in it, and tokens by which runs can be ended.
            options.mode(0o600);
        }
        let file = options.open(&part).map_err(|error| {
            Failure::usage(format!("{} cannot be written: {error}", part.display()))
        })?;
        let to = Box::new(BufWriter::with_capacity(1 << 20, file.try_clone()?));
        Ok(Self { to, file: Some((file, part, path.to_owned())), digest, line })
    }

    fn put(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line).map_err(io::Error::from)?;
        self.line.push(b'\n');
        self.digest.update(&self.line);
        Ok(self.to.write_all(&self.line)?)
    }

    fn end(&mut self, records: Tally, audit: u64) -> Result<(), Failure> {
        let sha256 = hex(self.digest.clone().finalize());
        self.put(&Line::End(End { records, audit, sha256 }))
    }

    fn close(mut self) -> Result<(), Failure> {
        self.to.flush()?;
        if let Some((file, part, path)) = self.file {
            file.sync_all()?;
            fs::rename(part, path)?;
        }
        Ok(())
    }
}
