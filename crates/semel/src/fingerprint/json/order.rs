//! Putting members in order after the pass, without moving a byte more than once.
//!
//! The parser leaves the canonical text in the order of the input. An object whose members must move, or of which some
//! do not count, leaves the list of its segments; here the text is written out along these lists. The cost is one copy
//! of the text, however deep it nests.

/// What the parser leaves.
#[derive(Debug, Default)]
pub(super) struct Tape {
    /// The canonical text, but for the order of members.
    pub(super) text: Vec<u8>,
    /// The objects, and the arrays that a pointer leads into, by where they start.
    pub(super) composites: Vec<Composite>,
    /// The members that count of the composites that are written anew.
    pub(super) segments: Vec<Segment>,
    /// The values that are included, by the index of their pointer.
    pub(super) included: Vec<(u16, Segment)>,
}

/// An object or array in the text.
#[derive(Copy, Clone, Debug)]
pub(super) struct Composite {
    pub(super) start: u32,
    pub(super) end: u32,
    /// Its part of the segments, if it is written anew.
    pub(super) anew: Option<(u32, u32)>,
    /// The index of the first composite behind it.
    pub(super) next: u32,
}

/// A member or a value in the text.
#[derive(Copy, Clone, Debug)]
pub(super) struct Segment {
    pub(super) start: u32,
    pub(super) end: u32,
    /// The index of the first composite that starts in it or behind it.
    pub(super) first: u32,
}

impl Tape {
    pub(super) fn includes_nothing(&self) -> bool {
        self.included.is_empty()
    }

    /// Returns the segment that is the whole text.
    pub(super) fn whole(&self) -> Segment {
        Segment { start: 0, end: offset(self.text.len()), first: 0 }
    }

    /// Appends the whole text in order.
    pub(super) fn write_whole(&self, out: &mut Vec<u8>) {
        self.write(self.whole(), out);
    }

    /// Appends an object that has the included values as members, named by their pointers.
    pub(super) fn write_included(mut self, pointers: &[String], out: &mut Vec<u8>) {
        let mut included = std::mem::take(&mut self.included);
        included.sort_unstable_by_key(|(pointer, _)| *pointer);
        let mut lead = b'{';
        for (pointer, segment) in included {
            out.extend_from_slice(&[lead, b'"']);
            out.extend_from_slice(&super::escaped(pointers[usize::from(pointer)].as_bytes()));
            out.extend_from_slice(b"\":");
            self.write(segment, out);
            lead = b',';
        }
        out.push(b'}');
    }

    /// Appends one segment in order. It calls itself as deep as the text nests, which the parser has bounded.
    fn write(&self, segment: Segment, out: &mut Vec<u8>) {
        let (mut from, mut nth) = (index(segment.start), index(segment.first));
        while let Some(composite) = self.composites.get(nth).filter(|c| c.start < segment.end) {
            let Some((first, end)) = composite.anew else {
                nth += 1;
                continue;
            };
            out.extend_from_slice(&self.text[from..=index(composite.start)]);
            let members = &self.segments[index(first)..index(end)];
            for (rank, member) in members.iter().enumerate() {
                if rank > 0 {
                    out.push(b',');
                }
                self.write(*member, out);
            }
            from = index(composite.end) - 1;
            nth = index(composite.next);
        }
        out.extend_from_slice(&self.text[from..index(segment.end)]);
    }
}

/// Packs a position. The bound on the length of a JSON text, and on how much longer its canonical form can get, keeps
/// every position within 32 bits.
#[inline]
pub(super) fn offset(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[inline]
pub(super) fn index(offset: u32) -> usize {
    offset as usize
}
