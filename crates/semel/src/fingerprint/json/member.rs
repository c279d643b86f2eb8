//! The members of open objects: their names, their order, and which of them count.

use std::cmp::Ordering;

use super::super::FingerprintError;
use super::super::pointer::Step;
use super::name::{Name, Prefix};
use super::order::{Segment, index, offset};
use super::parser::{Inside, Parser, Result, Steps};

/// A member of an open object, or an element of an array that a pointer leads into.
#[derive(Copy, Clone)]
pub(super) struct Member {
    prefix: Prefix,
    pub(super) segment: Segment,
    /// None for an element.
    name: Option<Place>,
    /// The included pointer that ends here.
    pub(super) included: Option<u16>,
    pub(super) excluded: bool,
}

/// Where the name is found: in the input if it is canonical there, else in the text.
#[derive(Copy, Clone)]
struct Place {
    start: u32,
    len: u32,
    in_text: bool,
    escaped: bool,
}

impl Member {
    /// Returns the segment without the name: behind two quotes and a colon, or all of an element.
    pub(super) fn value(&self) -> Segment {
        let lead = self.name.map_or(0, |name| name.len + 3);
        Segment { start: self.segment.start + lead, ..self.segment }
    }

    /// Compares two members by name.
    #[inline]
    fn compare(&self, other: &Self, input: &[u8], text: &[u8]) -> Ordering {
        let order = self.prefix.cmp(&other.prefix);
        match (self.name, other.name) {
            (Some(one), Some(other)) if order.is_eq() => {
                one.name(input, text).compare_rest(other.name(input, text))
            }
            _ => order,
        }
    }
}

impl Place {
    #[inline]
    fn name<'t>(self, input: &'t [u8], text: &'t [u8]) -> Name<'t> {
        let from = if self.in_text { text } else { input };
        let (start, len) = (index(self.start), index(self.len));
        Name { text: &from[start..start + len], escaped: self.escaped }
    }
}

impl Parser<'_> {
    /// Reads the name of a member and its colon.
    #[inline]
    pub(super) fn member(&mut self) -> Result<()> {
        if self.peek() != Some(b'"') {
            return Err(self.malformed("expected a member name"));
        }
        let (start, from) = (self.here(), self.at);
        let spelled = self.string()?;
        let place = if spelled.rewritten {
            self.flush();
            let len = offset(self.here() - start - 2);
            Place { start: offset(start + 1), len, in_text: true, escaped: true }
        } else {
            let len = offset(self.at - from - 2);
            Place { start: offset(from + 1), len, in_text: false, escaped: spelled.escaped }
        };
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.malformed("expected a colon"));
        }
        self.at += 1;
        self.begin(start, Some(place))
    }

    /// Begins an element of an array.
    #[inline]
    pub(super) fn element(&mut self) -> Result<()> {
        if self.inside != Inside::PointedArray {
            return Ok(());
        }
        self.space();
        self.begin(self.here(), None)
    }

    #[inline]
    fn begin(&mut self, start: usize, name: Option<Place>) -> Result<()> {
        self.member_count += 1;
        if self.member_count > self.limits.members {
            return Err(FingerprintError::TooManyMembers { limit: self.limits.members });
        }
        let name_of = |place: Place| place.name(self.input, &self.tape.text);
        let prefix = name.map_or(Prefix::NONE, |place| name_of(place).prefix());
        let first = offset(self.tape.composites.len());
        let segment = Segment { start: offset(start), end: 0, first };
        let mut member = Member { prefix, segment, name, included: None, excluded: false };
        if self.inside != Inside::Object {
            self.next = self.steps(name);
            member.excluded = matches!(self.next.exclude, Step::End(_));
            if let Step::End(pointer) = self.next.include {
                member.included = Some(pointer);
            }
        }
        self.members.push(member);
        Ok(())
    }

    /// Goes one step along the pointers.
    fn steps(&self, name: Option<Place>) -> Steps {
        let Some(frame) = self.frames.last() else { return Steps::default() };
        let nth;
        let name = match name {
            Some(place) => place.name(self.input, &self.tape.text).text,
            None => {
                nth = (self.members.len() - frame.base).to_string();
                nth.as_bytes()
            }
        };
        Steps {
            include: frame.include.map_or(Step::Off, |node| self.include.member(node, name)),
            exclude: frame.exclude.map_or(Step::Off, |node| self.exclude.member(node, name)),
        }
    }

    /// Ends the member or element that the last value belongs to.
    #[inline]
    pub(super) fn end_member(&mut self) {
        if matches!(self.inside, Inside::Array | Inside::Document) {
            return;
        }
        let here = offset(self.here());
        let (Some(frame), Some(member)) = (self.frames.last_mut(), self.members.last_mut()) else {
            return;
        };
        member.segment.end = here;
        frame.as_is &= !member.excluded;
        if frame.inside == Inside::PointedArray || !frame.in_order {
            return;
        }
        if let [.., before, member] = &self.members[frame.base..] {
            frame.in_order = before.compare(member, self.input, &self.tape.text).is_lt();
            frame.as_is &= frame.in_order;
        }
    }

    /// Sorts the members from `base` on by name.
    pub(super) fn sort(&mut self, base: usize) -> Result<()> {
        let (input, text) = (self.input, &self.tape.text);
        let members = &mut self.members[base..];
        let compare = |one: &Member, other: &Member| one.compare(other, input, text);
        members.sort_unstable_by(compare);
        let twice = members.windows(2).any(|pair| compare(&pair[0], &pair[1]).is_eq());
        if twice { Err(FingerprintError::DuplicateMember { at: self.at }) } else { Ok(()) }
    }
}
