//! The search: every world that can be reached, the nearest first.
//!
//! Worlds are kept packed and without loss, so two of them are never taken for one. Holders that have
//! changed places make the same world.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    hash::{BuildHasherDefault, Hasher},
    time::{Duration, Instant},
};

use super::{
    bounds::Bounds,
    ending,
    moment::Moment,
    packed::{Packed, packed},
    properties::Broken,
    rules::Rules,
    step::{self, Step},
    world::World,
};

/// What a search saw.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub worlds: usize,
    pub steps: usize,
    pub depth: u32,
    pub took: Duration,
}

/// The shortest way to a broken promise.
#[derive(Debug)]
pub struct Way {
    pub broken: Broken,
    pub steps: Vec<(Step, World)>,
}

type Known = HashSet<Packed, BuildHasherDefault<Mixer>>;

/// Searches all worlds within the bounds.
pub fn search(rules: &Rules, bounds: &Bounds) -> Result<Seen, Box<Way>> {
    bounds.check();
    let start = Instant::now();
    let mut known = Known::default();
    let mut open = VecDeque::new();
    // How each world was reached: from which one, by which step.
    let mut ways: Vec<(u32, Step)> = vec![(0, Step::Tick)];
    let mut endings = ending::Endings::default();
    let mut seen = Seen { worlds: 1, steps: 0, depth: 0, took: Duration::ZERO };
    let first = World::new().canonical().0;
    known.insert(packed(&first));
    open.push_back((first, 0_u32, 0_u32));
    let mut steps = Vec::new();
    while let Some((world, way, depth)) = open.pop_front() {
        seen.depth = seen.depth.max(depth);
        if let Err(broken) = endings.check(&world, rules, bounds) {
            return Err(Way::to(way, None, &ways, broken, rules, bounds));
        }
        step::steps(&world, rules, bounds, &mut steps);
        for step in &steps {
            seen.steps += 1;
            let mut moment = Moment { world, rules, bounds };
            if let Err(broken) = moment.take(*step) {
                return Err(Way::to(way, Some(*step), &ways, broken, rules, bounds));
            }
            let next = moment.world.canonical().0;
            if known.insert(packed(&next)) {
                open.push_back((next, u32::try_from(ways.len()).unwrap(), depth + 1));
                ways.push((way, *step));
            }
        }
    }
    seen.worlds = known.len();
    seen.took = start.elapsed();
    Ok(seen)
}

impl Way {
    /// Walks the way once more, with the holders kept by their names.
    fn to(
        way: u32,
        last: Option<Step>,
        ways: &[(u32, Step)],
        broken: Broken,
        rules: &Rules,
        bounds: &Bounds,
    ) -> Box<Self> {
        let mut back: Vec<Step> = last.into_iter().collect();
        let mut at = way;
        while at != 0 {
            let (before, step) = ways[usize::try_from(at).unwrap()];
            back.push(step);
            at = before;
        }
        let mut world = World::new();
        let mut steps = Vec::new();
        for step in back.into_iter().rev() {
            let (_, order) = world.canonical();
            let step = step.renamed(&order);
            let mut moment = Moment { world, rules, bounds };
            // What the last step broke is known.
            moment.take(step).err();
            world = moment.world;
            steps.push((step, world));
        }
        Box::new(Self { broken, steps })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} after {} steps:", self.broken, self.steps.len())?;
        for (number, (step, world)) in self.steps.iter().enumerate() {
            let stands = world.record.map_or("absent", |record| record.state.as_str());
            writeln!(f, "{:>4}. {:<72} {stands}", number + 1, step.to_string())?;
        }
        Ok(())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} worlds, {} steps, {} deep, {:.1} s",
            self.worlds,
            self.steps,
            self.depth,
            self.took.as_secs_f64()
        )
    }
}

/// Mixes small fields fast; the worlds themselves are compared, so it need not be strong.
#[derive(Clone, Copy, Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let word = word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.write_u64(word);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
