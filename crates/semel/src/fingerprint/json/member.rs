//! The members of open objects: their names, their order, and which of them count.

use super::super::FingerprintError;
use super::super::pointer::Step;
use super::name::Name;
use super::order::{Segment, index, offset};
use super::parser::{Kind, Parser, Result, Steps};

/// A member of an open object, or an element of an array that a pointer leads into.
#[derive(Copy, Clone)]
pub(super) struct Member {
    pub(super) segment: Segment,
    name: Place,
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
        let lead = if self.name.start == Place::NONE.start { 0 } else { self.name.len + 3 };
        Segment { start: self.segment.start + lead, ..self.segment }
    }
}

impl Place {
    const NONE: Self = Self { start: u32::MAX, len: 0, in_text: false, escaped: false };

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
        self.begin(start, place)
    }

    /// Begins an element of an array.
    #[inline]
    pub(super) fn element(&mut self) -> Result<()> {
        self.next = Steps::default();
        match self.frames.last() {
            Some(frame) if frame.composite.is_some() => {
                self.space();
                self.begin(self.here(), Place::NONE)
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn begin(&mut self, start: usize, name: Place) -> Result<()> {
        self.member_count += 1;
        if self.member_count > self.limits.members {
            return Err(FingerprintError::TooManyMembers { limit: self.limits.members });
        }
        self.next = self.steps(name);
        let included = match self.next.include {
            Step::End(pointer) => u16::try_from(pointer).ok(),
            _ => None,
        };
        let excluded = matches!(self.next.exclude, Step::End(_));
        let first = offset(self.tape.composites.len());
        let segment = Segment { start: offset(start), end: 0, first };
        self.members.push(Member { segment, name, included, excluded });
        Ok(())
    }

    /// Goes one step along the pointers.
    #[inline]
    fn steps(&self, name: Place) -> Steps {
        let Some(frame) = self.frames.last() else {
            return Steps::default();
        };
        if frame.include.is_none() && frame.exclude.is_none() {
            return Steps::default();
        }
        let nth;
        let name = match frame.kind {
            Kind::Object => name.name(self.input, &self.tape.text).text,
            Kind::Array => {
                nth = (self.members.len() - frame.base).to_string();
                nth.as_bytes()
            }
        };
        Steps {
            include: frame.include.map_or(Step::Off, |node| self.include.member(node, name)),
            exclude: frame.exclude.map_or(Step::Off, |node| self.exclude.member(node, name)),
        }
    }

    /// Ends a member or element behind its value.
    #[inline]
    pub(super) fn end_member(&mut self) -> Result<()> {
        let here = offset(self.here());
        let Some(frame) = self.frames.last_mut().filter(|frame| frame.composite.is_some()) else {
            return Ok(());
        };
        let Some(member) = self.members.last_mut() else {
            return Ok(());
        };
        member.segment.end = here;
        frame.as_is &= !member.excluded;
        if frame.kind == Kind::Array || !frame.in_order {
            return Ok(());
        }
        if let [.., before, member] = &self.members[frame.base..] {
            let (input, text) = (self.input, &self.tape.text);
            let order = before.name.name(input, text).compare(member.name.name(input, text));
            frame.in_order = order.is_lt();
            frame.as_is &= frame.in_order;
        }
        Ok(())
    }

    /// Sorts the members from `base` on by name.
    pub(super) fn sort(&mut self, base: usize) -> Result<()> {
        let (input, text) = (self.input, &self.tape.text);
        let members = &mut self.members[base..];
        let name = |member: &Member| member.name.name(input, text);
        members.sort_unstable_by(|one, other| name(one).compare(name(other)));
        let twice = members.windows(2).any(|pair| name(&pair[0]).compare(name(&pair[1])).is_eq());
        if twice { Err(FingerprintError::DuplicateMember { at: self.at }) } else { Ok(()) }
    }
}
