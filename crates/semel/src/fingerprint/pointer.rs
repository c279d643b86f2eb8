//! JSON Pointers (RFC 6901), compiled into a tree that the tokenizer walks along.

use super::PlanError;
use super::json::escaped;

/// The longest pointer, in bytes.
const POINTER_BYTES_MAX: usize = 1_024;

/// A set of pointers, as given, sorted, without those that another one covers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Pointers {
    texts: Vec<String>,
    tree: Tree,
}

impl Pointers {
    pub(super) const COUNT_MAX: usize = 256;

    /// Adds pointers to the set.
    pub(super) fn add(
        &mut self,
        pointers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(), PlanError> {
        for pointer in pointers {
            let pointer = pointer.as_ref();
            check_syntax(pointer)?;
            if !self.texts.iter().any(|kept| covers(kept, pointer)) {
                self.texts.retain(|kept| !covers(pointer, kept));
                self.texts.push(pointer.to_owned());
            }
            if self.texts.len() > Self::COUNT_MAX {
                return Err(PlanError::TooMany { what: "pointers", limit: Self::COUNT_MAX });
            }
        }
        // The order of RFC 8785, since the included values are written as members named by their pointer.
        self.texts.sort_unstable_by(|one, other| one.encode_utf16().cmp(other.encode_utf16()));
        self.tree = Tree::new(&self.texts);
        Ok(())
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Says whether a pointer of the set names `pointer` itself or something around it.
    pub(super) fn cover(&self, pointer: &str) -> bool {
        self.texts.iter().any(|kept| covers(kept, pointer))
    }
}

fn check_syntax(pointer: &str) -> Result<(), PlanError> {
    let tilde_right = |(at, _)| matches!(pointer.as_bytes().get(at + 1), Some(b'0' | b'1'));
    let right = (pointer.is_empty() || pointer.starts_with('/'))
        && pointer.len() <= POINTER_BYTES_MAX
        && pointer.match_indices('~').all(tilde_right);
    if right { Ok(()) } else { Err(PlanError::PointerSyntax { pointer: pointer.to_owned() }) }
}

fn covers(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A place in a [`Tree`].
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Node(u32);

impl Node {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a step along a [`Tree`] found.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Step {
    /// No pointer leads here.
    #[default]
    Off,
    /// A pointer leads through here.
    On(Node),
    /// The pointer with this index ends here.
    End(u16),
}

impl Step {
    /// Returns the place that pointers lead on from.
    pub(super) fn node(self) -> Option<Node> {
        if let Self::On(node) = self { Some(node) } else { None }
    }
}

/// The pointers of a set, merged by common beginnings. Names are kept in their canonical escaped spelling, which is
/// what the tokenizer has at hand.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Tree {
    root: Step,
    nodes: Vec<Vec<Branch>>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Branch {
    name: Vec<u8>,
    to: Step,
}

impl Tree {
    fn new(pointers: &[String]) -> Self {
        let root = match pointers.first().map(String::as_str) {
            None => Step::Off,
            Some("") => Step::End(0),
            Some(_) => Step::On(Node(0)),
        };
        let mut tree = Self { root, nodes: vec![Vec::new()] };
        for (index, pointer) in (0..).zip(pointers) {
            tree.insert(index, pointer);
        }
        tree
    }

    /// Goes to the whole document.
    pub(super) fn root(&self) -> Step {
        self.root
    }

    /// Goes from `node` to the member whose canonical escaped name is `name`, or to the element with that index.
    pub(super) fn member(&self, node: Node, name: &[u8]) -> Step {
        let branch = self.nodes[node.0 as usize].iter().find(|branch| branch.name == name);
        branch.map_or(Step::Off, |branch| branch.to)
    }

    fn insert(&mut self, index: u16, pointer: &str) {
        let mut at = 0;
        let mut tokens = pointer.split('/').skip(1).peekable();
        while let Some(token) = tokens.next() {
            let name = escaped(token.replace("~1", "/").replace("~0", "~").as_bytes());
            if tokens.peek().is_none() {
                self.nodes[at].push(Branch { name, to: Step::End(index) });
                return;
            }
            at = self.through(at, name);
        }
    }

    /// Finds or makes the branch `name` at `at` that leads on. No pointer ends there, since the set holds no pointer
    /// that another one covers.
    fn through(&mut self, at: usize, name: Vec<u8>) -> usize {
        let known = self.nodes[at].iter().find(|branch| branch.name == name);
        if let Some(node) = known.and_then(|branch| branch.to.node()) {
            return node.index();
        }
        let next = self.nodes.len();
        self.nodes.push(Vec::new());
        // The bounds on pointers and their length keep the count of nodes far within 32 bits.
        let to = Step::On(Node(u32::try_from(next).unwrap_or(u32::MAX)));
        self.nodes[at].push(Branch { name, to });
        next
    }
}
