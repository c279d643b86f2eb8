//! The pass over the bytes: checks the grammar and writes the canonical text in the order of the input.
//!
//! Text that is canonical as it stands is copied in runs: `copied` is how much of the input is already written or left
//! out, and a position in the output counts the run that is still to be written. There is no recursion.

use super::super::pointer::{Node, Step, Tree};
use super::super::{FingerprintError, Limits, Plan};
use super::member::Member;
use super::order::{Composite, Segment, Tape, offset};

pub(super) type Result<T> = std::result::Result<T, FingerprintError>;

/// Reads one JSON text.
pub(super) struct Parser<'a> {
    pub(super) input: &'a [u8],
    pub(super) at: usize,
    pub(super) copied: usize,
    pub(super) tape: Tape,
    pub(super) frames: Vec<Frame>,
    pub(super) members: Vec<Member>,
    pub(super) member_count: u32,
    /// What the value that comes next is to the pointers.
    pub(super) next: Steps,
    pub(super) include: &'a Tree,
    pub(super) exclude: &'a Tree,
    pub(super) limits: &'a Limits,
}

/// An array or object that is open.
pub(super) struct Frame {
    pub(super) kind: Kind,
    /// Where its members begin in the list of members of all open frames.
    pub(super) base: usize,
    /// Its index in the tape; none for an array that no pointer leads into.
    pub(super) composite: Option<usize>,
    pub(super) include: Option<Node>,
    pub(super) exclude: Option<Node>,
    /// Whether the members came in order.
    pub(super) in_order: bool,
    /// Whether the members came in order and all of them count.
    pub(super) as_is: bool,
}

#[derive(Copy, Clone, Eq, PartialEq)]
pub(super) enum Kind {
    Array,
    Object,
}

/// Where the pointers lead.
#[derive(Copy, Clone, Default)]
pub(super) struct Steps {
    pub(super) include: Step,
    pub(super) exclude: Step,
}

impl<'a> Parser<'a> {
    /// Starts at the beginning of `input`, which must be UTF-8.
    pub(super) fn new(input: &'a [u8], plan: &'a Plan) -> Self {
        let (include, exclude) = (plan.included().tree(), plan.excluded().tree());
        let text = Vec::with_capacity(input.len() + input.len() / 16);
        Self {
            input,
            at: 0,
            copied: 0,
            tape: Tape { text, ..Tape::default() },
            frames: Vec::new(),
            members: Vec::new(),
            member_count: 0,
            next: Steps { include: include.root(), exclude: exclude.root() },
            include,
            exclude,
            limits: plan.limit(),
        }
    }

    /// Reads the text to its end.
    pub(super) fn run(mut self) -> Result<Tape> {
        let whole = matches!(self.next.include, Step::End(_));
        loop {
            self.value()?;
            if self.after_value()? {
                break;
            }
        }
        self.flush();
        if whole {
            let end = offset(self.tape.text.len());
            self.tape.included.push((0, Segment { start: 0, end, first: 0 }));
        }
        Ok(self.tape)
    }

    /// Reads a scalar, or opens arrays and objects up to the first value that stands in none but those.
    fn value(&mut self) -> Result<()> {
        loop {
            self.space();
            match self.peek() {
                Some(b'"') => return self.string().map(drop),
                Some(b'-' | b'0'..=b'9') => return self.number(),
                Some(b'{') => {
                    if self.open(Kind::Object, b'}')? {
                        return Ok(());
                    }
                    self.member()?;
                }
                Some(b'[') => {
                    if self.open(Kind::Array, b']')? {
                        return Ok(());
                    }
                    self.element()?;
                }
                Some(b't') => return self.literal(b"true"),
                Some(b'f') => return self.literal(b"false"),
                Some(b'n') => return self.literal(b"null"),
                _ => return Err(self.malformed("expected a value")),
            }
        }
    }

    /// Goes on behind a value: to the next one, or out of everything that ends here. True at the end of the text.
    fn after_value(&mut self) -> Result<bool> {
        loop {
            let Some(kind) = self.frames.last().map(|frame| frame.kind) else {
                self.space();
                return match self.peek() {
                    None => Ok(true),
                    Some(_) => Err(self.malformed("expected nothing behind the value")),
                };
            };
            self.end_member()?;
            self.space();
            match (self.peek(), kind) {
                (Some(b','), Kind::Object) => {
                    self.at += 1;
                    self.space();
                    self.member()?;
                    return Ok(false);
                }
                (Some(b','), Kind::Array) => {
                    self.at += 1;
                    self.element()?;
                    return Ok(false);
                }
                (Some(b'}'), Kind::Object) | (Some(b']'), Kind::Array) => self.close()?,
                (_, Kind::Object) => return Err(self.malformed("expected a comma or a brace")),
                (_, Kind::Array) => return Err(self.malformed("expected a comma or a bracket")),
            }
        }
    }

    /// Opens an array or object. True if it is empty, hence closed again.
    #[inline]
    fn open(&mut self, kind: Kind, end: u8) -> Result<bool> {
        let limit = self.limits.depth;
        if self.frames.len() >= usize::from(limit) {
            return Err(FingerprintError::TooDeep { at: self.at, limit });
        }
        let start = offset(self.here());
        self.at += 1;
        self.space();
        if self.peek() == Some(end) {
            self.at += 1;
            return Ok(true);
        }
        let node = |step| {
            if let Step::On(node) = step { Some(node) } else { None }
        };
        let (include, exclude) = (node(self.next.include), node(self.next.exclude));
        let listed = kind == Kind::Object || include.is_some() || exclude.is_some();
        let composite = listed.then_some(self.tape.composites.len());
        if listed {
            self.tape.composites.push(Composite { start, end: start, anew: None, next: 0 });
        }
        let base = self.members.len();
        self.frames.push(Frame {
            kind,
            base,
            composite,
            include,
            exclude,
            as_is: true,
            in_order: true,
        });
        Ok(false)
    }

    /// Closes the innermost array or object and settles the order of its members.
    #[inline]
    fn close(&mut self) -> Result<()> {
        self.at += 1;
        let end = offset(self.here());
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        let Some(composite) = frame.composite else {
            return Ok(());
        };
        if !frame.in_order {
            self.sort(frame.base)?;
        }
        let members = &self.members[frame.base..];
        let tape = &mut self.tape;
        if !frame.as_is {
            let first = offset(tape.segments.len());
            let counting = members.iter().filter(|member| !member.excluded);
            tape.segments.extend(counting.map(|member| member.segment));
            tape.composites[composite].anew = Some((first, offset(tape.segments.len())));
        }
        if frame.include.is_some() {
            let included = |member: &Member| member.included.map(|at| (at, member.value()));
            tape.included.extend(members.iter().filter_map(included));
        }
        let next = offset(tape.composites.len());
        tape.composites[composite].end = end;
        tape.composites[composite].next = next;
        self.members.truncate(frame.base);
        Ok(())
    }
}
