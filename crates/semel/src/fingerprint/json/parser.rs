//! The pass over the bytes: checks the grammar and writes the canonical text in the order of the input.
//!
//! Text that is canonical as it stands is copied in runs: `copied` is how much of the input is already written or left
//! out, and a position in the output counts the run that is still to be written. There is no recursion.

use super::super::pointer::{Node, Step, Tree};
use super::super::{FingerprintError, Limits, Plan};
use super::member::Member;
use super::order::{Composite, Tape, offset};

pub(super) type Result<T> = std::result::Result<T, FingerprintError>;

/// Reads one JSON text.
pub(super) struct Parser<'a> {
    pub(super) input: &'a [u8],
    pub(super) at: usize,
    pub(super) copied: usize,
    pub(super) tape: Tape,
    /// What the innermost open array or object is.
    pub(super) inside: Inside,
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
#[derive(Copy, Clone)]
pub(super) struct Frame {
    pub(super) inside: Inside,
    /// Whether the members came in order.
    pub(super) in_order: bool,
    /// Whether the members came in order and all of them count.
    pub(super) as_is: bool,
    /// Where its members begin in the list of members of all open frames.
    pub(super) base: usize,
    /// Its index in the tape.
    pub(super) composite: usize,
    pub(super) include: Option<Node>,
    pub(super) exclude: Option<Node>,
}

/// What a place in the text is inside of; *pointed* means that pointers lead further into it. The elements of a plain
/// array are nobody's business.
#[derive(Copy, Clone, Eq, PartialEq)]
pub(super) enum Inside {
    Array,
    Document,
    Object,
    PointedArray,
    PointedObject,
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
        let room = input.len();
        let tape = Tape {
            text: Vec::with_capacity(room + room / 16),
            composites: Vec::with_capacity(room / 64 + 4),
            segments: Vec::with_capacity(room / 32 + 16),
            included: Vec::new(),
        };
        Self {
            input,
            at: 0,
            copied: 0,
            tape,
            inside: Inside::Document,
            frames: Vec::with_capacity(16),
            members: Vec::with_capacity(32),
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
            let whole = self.tape.whole();
            self.tape.included.push((0, whole));
        }
        Ok(self.tape)
    }

    /// Reads a scalar, an empty array or an empty object; opens what stands around it.
    #[inline]
    fn value(&mut self) -> Result<()> {
        loop {
            self.space();
            match self.peek() {
                Some(b'"') => return self.string().map(drop),
                Some(b'-' | b'0'..=b'9') => return self.number(),
                Some(b'{') => {
                    if self.open(Inside::Object, b'}')? {
                        return Ok(());
                    }
                    self.member()?;
                }
                Some(b'[') => {
                    if self.open(Inside::Array, b']')? {
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
    #[inline]
    fn after_value(&mut self) -> Result<bool> {
        loop {
            self.end_member();
            self.space();
            match (self.inside, self.peek()) {
                (Inside::Array, Some(b',')) => {
                    self.at += 1;
                    return Ok(false);
                }
                (Inside::Object | Inside::PointedObject, Some(b',')) => {
                    self.at += 1;
                    self.space();
                    self.member()?;
                    return Ok(false);
                }
                (Inside::PointedArray, Some(b',')) => {
                    self.at += 1;
                    self.element()?;
                    return Ok(false);
                }
                (Inside::Array | Inside::PointedArray, Some(b']'))
                | (Inside::Object | Inside::PointedObject, Some(b'}')) => self.close()?,
                (Inside::Document, None) => return Ok(true),
                _ => return Err(self.unexpected()),
            }
        }
    }

    #[cold]
    fn unexpected(&self) -> FingerprintError {
        self.malformed(match self.inside {
            Inside::Array | Inside::PointedArray => "expected a comma or a closing bracket",
            Inside::Document => "expected nothing behind the value",
            Inside::Object | Inside::PointedObject => "expected a comma or a closing brace",
        })
    }

    /// Opens an array or object. True if it is empty, hence closed again.
    #[inline]
    fn open(&mut self, inside: Inside, end: u8) -> Result<bool> {
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
        let Steps { include, exclude } = std::mem::take(&mut self.next);
        let (include, exclude) = (include.node(), exclude.node());
        self.inside = match inside {
            Inside::Array if include.or(exclude).is_some() => Inside::PointedArray,
            Inside::Object if include.or(exclude).is_some() => Inside::PointedObject,
            plain => plain,
        };
        let composite = self.tape.composites.len();
        if self.inside != Inside::Array {
            self.tape.composites.push(Composite { start, end: start, anew: None, next: 0 });
        }
        self.frames.push(Frame {
            inside: self.inside,
            in_order: true,
            as_is: true,
            base: self.members.len(),
            composite,
            include,
            exclude,
        });
        Ok(false)
    }

    /// Closes the innermost array or object and settles the order of its members.
    #[inline]
    fn close(&mut self) -> Result<()> {
        let frame = self.frames.pop();
        self.inside = self.frames.last().map_or(Inside::Document, |outer| outer.inside);
        if let Some(frame) = frame.filter(|frame| frame.inside != Inside::Array) {
            self.settle(frame)?;
        }
        self.at += 1;
        Ok(())
    }

    fn settle(&mut self, frame: Frame) -> Result<()> {
        if !frame.in_order {
            self.sort(frame.base)?;
        }
        let end = offset(self.here() + 1);
        let members = &self.members[frame.base..];
        let tape = &mut self.tape;
        if !frame.as_is {
            let first = offset(tape.segments.len());
            let counting = members.iter().filter(|member| !member.excluded);
            tape.segments.extend(counting.map(|member| member.segment));
            tape.composites[frame.composite].anew = Some((first, offset(tape.segments.len())));
        }
        if frame.include.is_some() {
            let included = |member: &Member| member.included.map(|at| (at, member.value()));
            tape.included.extend(members.iter().filter_map(included));
        }
        let next = offset(tape.composites.len());
        let composite = &mut tape.composites[frame.composite];
        (composite.end, composite.next) = (end, next);
        self.members.truncate(frame.base);
        Ok(())
    }
}
