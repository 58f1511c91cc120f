//! The one loop in which every end of a transfer lives.

use carillon_core::Duration;
use carillon_net::DriveError;

/// One end of a transfer, as the loop sees it.
pub trait Run {
    /// Waits until something is due, no longer than this, and does it.
    fn step(&mut self, wait: Duration) -> Result<(), DriveError>;
    /// No step is to wait longer than this.
    fn longest(&self) -> Duration {
        Duration::MAX
    }
    /// Takes note of what the step has changed.
    fn look(&mut self);
    /// Whether nothing more is to be done.
    fn is_over(&self) -> bool;
    /// Whether, when it is over, the others may still have to be told.
    fn has_last_words(&self) -> bool;
    /// Brings it to its end: in order, the others being told why.
    fn quit(&mut self, reason: &str);
}

/// What whoever started a transfer wants of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Let it go on.
    GoOn,
    /// Let it end, and tell the others why. Said once; more does not change anything.
    Quit(&'static str),
    /// Leave it as it is, and wait for nobody.
    Drop,
}

/// Goes on until it is over, or dropped. `turn` is called after each step, a few times a second at least.
pub fn conduct<R: Run, E: From<DriveError>>(
    run: &mut R,
    turn: impl FnMut(&mut R) -> Result<Wish, E>,
) -> Result<(), E> {
    conduct_within(run, LONGEST_STEP, turn)
}

/// The same with steps that wait so long at most: for who is woken when there is something to wish.
pub(crate) fn conduct_within<R: Run, E: From<DriveError>>(
    run: &mut R,
    longest: Duration,
    mut turn: impl FnMut(&mut R) -> Result<Wish, E>,
) -> Result<(), E> {
    let mut quitting = false;
    loop {
        run.step(longest.min(run.longest()))?;
        run.look();
        match turn(run)? {
            Wish::Quit(reason) if !quitting && !run.is_over() => {
                quitting = true;
                run.quit(reason);
            }
            Wish::GoOn | Wish::Quit(_) => {}
            Wish::Drop => return Ok(()),
        }
        if run.is_over() {
            if run.has_last_words() {
                run.step(Duration::ZERO)?;
                run.look();
            }
            return Ok(());
        }
    }
}

/// No turn waits longer, so that a wish to stop is soon noticed.
const LONGEST_STEP: Duration = Duration::from_millis(100);
/// As good as for ever.
pub(crate) const UNTIL_WOKEN: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Script {
        steps: u32,
        quits: Vec<String>,
        over: bool,
        last_words: bool,
        ends_when_asked: bool,
    }

    impl Run for Script {
        fn step(&mut self, _: Duration) -> Result<(), DriveError> {
            self.steps += 1;
            Ok(())
        }
        fn look(&mut self) {
            self.over |= self.steps >= 10;
        }
        fn is_over(&self) -> bool {
            self.over
        }
        fn has_last_words(&self) -> bool {
            self.last_words
        }
        fn quit(&mut self, reason: &str) {
            self.quits.push(reason.to_owned());
            self.over = self.ends_when_asked;
        }
    }

    fn run(mut script: Script, wish: impl Fn(u32) -> Wish) -> Script {
        conduct(&mut script, |run| Ok::<_, DriveError>(wish(run.steps))).expect("no step fails");
        script
    }

    #[test]
    fn it_is_asked_to_quit_once_and_goes_on_to_its_end() {
        let ended = run(Script::default(), |_| Wish::Quit("why"));
        assert_eq!((ended.steps, ended.quits), (10, vec!["why".to_owned()]));
    }

    #[test]
    fn last_words_take_one_more_step() {
        let script = Script { last_words: true, ends_when_asked: true, ..Script::default() };
        let ended = run(script, |steps| if steps == 3 { Wish::Quit("why") } else { Wish::GoOn });
        assert_eq!(ended.steps, 4);
    }

    #[test]
    fn who_is_dropped_takes_no_further_step() {
        assert_eq!(run(Script::default(), |steps| if steps == 3 { Wish::Drop } else { Wish::GoOn }).steps, 3);
    }
}
