//! Any bytes as a message of a replication slot: what is read is what stands there, so that it is written again and read
//! the same, and of a message that is cut off or goes on nothing is read.

#[path = "../../../crates/semel-postgres/src/outbox/slot/pgoutput.rs"]
mod pgoutput;

use self::pgoutput::{Change, Column, Relation};

/// The longest message that is cut off everywhere.
const CUT_MAX: usize = 256;

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(change) = pgoutput::read(data) else { return };
    let Some(written) = written(&change) else { return };
    assert_eq!(pgoutput::read(&written).as_ref(), Ok(&change));
    assert!(written.len() <= data.len(), "more was read than stands there: {change:?}");
    if written.len() > CUT_MAX {
        return;
    }
    for len in 0..written.len() {
        assert!(pgoutput::read(&written[..len]).is_err(), "{len} bytes of {change:?}");
    }
    assert!(pgoutput::read(&[written.as_slice(), &[0]].concat()).is_err());
}

/// Writes a message as the server does, with nothing in what is not read.
fn written(change: &Change<'_>) -> Option<Vec<u8>> {
    Some(match change {
        Change::Begin => [b"B".as_slice(), &[0; 20]].concat(),
        Change::Commit { end_lsn } => {
            [b"C".as_slice(), &[0; 9], &end_lsn.to_be_bytes(), &[0; 8]].concat()
        }
        Change::Relation(relation) => described(relation),
        Change::Insert { relation, columns } => inserted(*relation, columns),
        Change::Other => return None,
    })
}

fn described(relation: &Relation<'_>) -> Vec<u8> {
    let mut message = [b"R".as_slice(), &relation.id.to_be_bytes()].concat();
    for name in [relation.schema, relation.name] {
        message.extend([name.as_bytes(), b"\0"].concat());
    }
    message.push(b'd');
    message.extend(count(relation.columns.len()));
    for name in &relation.columns {
        message.extend([b"\0", name.as_bytes(), &[0; 9]].concat());
    }
    message
}

fn inserted(relation: u32, columns: &[Column<'_>]) -> Vec<u8> {
    let mut message = [b"I".as_slice(), &relation.to_be_bytes(), b"N"].concat();
    message.extend(count(columns.len()));
    for column in columns {
        match column {
            Column::Null => message.push(b'n'),
            Column::Unchanged => message.push(b'u'),
            Column::Text(text) => {
                let len = u32::try_from(text.len()).expect("it was told in four bytes");
                message.extend([b"t".as_slice(), &len.to_be_bytes(), text].concat());
            }
        }
    }
    message
}

fn count(of: usize) -> [u8; 2] {
    u16::try_from(of).expect("it was told in two bytes").to_be_bytes()
}
