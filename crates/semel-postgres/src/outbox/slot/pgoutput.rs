//! What a replication slot tells of one table: the messages of the plugin `pgoutput`, as far as a reader
//! of an append-only table needs them.
//!
//! Source: PostgreSQL's documentation, "Logical Replication Message Formats", protocol version 1.

use thiserror::Error;

/// One message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Change<'a> {
    /// A transaction begins; transactions come one after the other, in the order of their commits.
    Begin,
    /// It ends.
    Commit {
        /// Where what follows it begins: what is confirmed when it is done.
        end_lsn: u64,
    },
    /// A table is described before its first row.
    Relation(Relation<'a>),
    /// A row was inserted into a table.
    Insert {
        /// Which.
        relation: u32,
        /// The columns, in the order of the table's description.
        columns: Vec<Column<'a>>,
    },
    /// Something else, which an append-only table has nothing to do with.
    Other,
}

/// A table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Relation<'a> {
    pub(crate) id: u32,
    pub(crate) schema: &'a str,
    pub(crate) name: &'a str,
    pub(crate) columns: Vec<&'a str>,
}

/// A column of a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Column<'a> {
    Null,
    /// A large value that did not change, which an insert never has.
    Unchanged,
    /// As text of the server.
    Text(&'a [u8]),
}

/// A message is none that the protocol knows.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("the replication slot sent a message that cannot be read: {0}")]
pub(crate) struct Malformed(&'static str);

/// Reads one message.
pub(crate) fn read(message: &[u8]) -> Result<Change<'_>, Malformed> {
    let mut bytes = Bytes(message);
    let change = match bytes.byte()? {
        b'B' => {
            bytes.take(8 + 8 + 4)?;
            Change::Begin
        }
        b'C' => {
            bytes.take(1 + 8)?;
            let end_lsn = u64::from_be_bytes(bytes.array()?);
            bytes.take(8)?;
            Change::Commit { end_lsn }
        }
        b'R' => Change::Relation(bytes.relation()?),
        b'I' => {
            let relation = u32::from_be_bytes(bytes.array()?);
            if bytes.byte()? != b'N' {
                return Err(Malformed("an insert has no new row"));
            }
            Change::Insert { relation, columns: bytes.row()? }
        }
        // Origin, type, update, delete, truncate, message.
        b'O' | b'Y' | b'U' | b'D' | b'T' | b'M' => return Ok(Change::Other),
        _ => return Err(Malformed("it is of a kind that this version does not know")),
    };
    if bytes.0.is_empty() { Ok(change) } else { Err(Malformed("it is longer than it says")) }
}

/// What is left of a message.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed("it ends too early"))
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn count(&mut self) -> Result<usize, Malformed> {
        Ok(usize::from(u16::from_be_bytes(self.array()?)))
    }

    fn text(&mut self) -> Result<&'a str, Malformed> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = self.take(end.ok_or(Malformed("a text has no end"))?)?;
        self.take(1)?;
        std::str::from_utf8(text).map_err(|_| Malformed("a text is not UTF-8"))
    }

    fn relation(&mut self) -> Result<Relation<'a>, Malformed> {
        let id = u32::from_be_bytes(self.array()?);
        let (schema, name) = (self.text()?, self.text()?);
        self.take(1)?;
        let count = self.count()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            self.take(1)?;
            columns.push(self.text()?);
            self.take(4 + 4)?;
        }
        Ok(Relation { id, schema, name, columns })
    }

    fn row(&mut self) -> Result<Vec<Column<'a>>, Malformed> {
        let count = self.count()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(match self.byte()? {
                b'n' => Column::Null,
                b'u' => Column::Unchanged,
                b't' => {
                    let len = usize::try_from(u32::from_be_bytes(self.array()?));
                    Column::Text(self.take(len.map_err(|_| Malformed("a value is too long"))?)?)
                }
                _ => return Err(Malformed("a column is of an unknown kind")),
            });
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation() -> Vec<u8> {
        let mut message = vec![b'R'];
        message.extend(7_u32.to_be_bytes());
        message.extend(b"semel\0outbox\0d");
        message.extend(2_u16.to_be_bytes());
        for name in ["xid", "pos"] {
            message.push(0);
            message.extend(name.as_bytes());
            message.extend([0; 9]);
        }
        message
    }

    fn insert() -> Vec<u8> {
        let mut message = vec![b'I'];
        message.extend(7_u32.to_be_bytes());
        message.extend(b"N\0\x02nt\0\0\0\x0242");
        message
    }

    #[test]
    fn each_message_is_read() {
        let columns = vec!["xid", "pos"];
        let read_relation = Relation { id: 7, schema: "semel", name: "outbox", columns };
        assert_eq!(read(&relation()), Ok(Change::Relation(read_relation)));
        let columns = vec![Column::Null, Column::Text(b"42")];
        assert_eq!(read(&insert()), Ok(Change::Insert { relation: 7, columns }));
        assert_eq!(read(&[b"B".as_slice(), &[0; 20]].concat()), Ok(Change::Begin));
        let mut commit = vec![b'C'; 1];
        commit.extend([0; 9]);
        commit.extend(0x0123_4567_u64.to_be_bytes());
        commit.extend([0; 8]);
        assert_eq!(read(&commit), Ok(Change::Commit { end_lsn: 0x0123_4567 }));
        assert_eq!(read(b"Tanything"), Ok(Change::Other));
    }

    #[test]
    fn what_ends_too_early_or_too_late_is_refused_and_read_no_further() {
        for message in [relation(), insert()] {
            for len in 0..message.len() {
                assert!(read(&message[..len]).is_err(), "{len} bytes of {message:?}");
            }
            assert!(read(&[message.as_slice(), b"x"].concat()).is_err());
        }
        assert!(read(b"Q").is_err());
        let huge = [b"I\0\0\0\x07N\0\x01t".as_slice(), &[0xff; 4]].concat();
        assert!(read(&huge).is_err());
    }
}
