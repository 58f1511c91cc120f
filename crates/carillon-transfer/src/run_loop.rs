//! The one loop in which every end of a transfer lives.

use carillon_core::Duration;
use carillon_net::DriveError;

/// One end of a transfer, as the loop sees it.
pub trait Run {
    /// Waits until something is due, no longer than this, and does it.
    fn step(&mut self, wait: Duration) -> Result<(), DriveError>;
    /// No step is to wait longer than this.
    fn max_wait(&self) -> Duration {
        Duration::MAX
    }
    /// Takes note of what the step has changed.
    fn update(&mut self);
    /// Whether nothing more is to be done.
    fn is_over(&self) -> bool;
    /// Whether, when it is over, the others may still have to be told.
    fn needs_final_step(&self) -> bool;
    /// Brings it to its end: in order, the others being told why.
    fn quit(&mut self, reason: &str);
}

/// What whoever started a transfer wants of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunControl {
    /// Let it go on.
    Continue,
    /// Let it end, and tell the others why. Said once; more does not change anything.
    Quit(&'static str),
    /// Leave it as it is, and wait for nobody.
    Drop,
}

/// Goes on until it is over, or dropped. `turn` is called after each step, a few times a second at least.
pub fn run_to_end<R: Run, E: From<DriveError>>(
    run: &mut R,
    turn: impl FnMut(&mut R) -> Result<RunControl, E>,
) -> Result<(), E> {
    run_to_end_within(run, MAX_STEP, turn)
}

/// The same with steps that wait so long at most: for who is woken when there is something to wish.
pub(crate) fn run_to_end_within<R: Run, E: From<DriveError>>(
    run: &mut R,
    longest: Duration,
    mut turn: impl FnMut(&mut R) -> Result<RunControl, E>,
) -> Result<(), E> {
    let mut quitting = false;
    loop {
        run.step(longest.min(run.max_wait()))?;
        run.update();
        match turn(run)? {
            RunControl::Quit(reason) if !quitting && !run.is_over() => {
                quitting = true;
                run.quit(reason);
            }
            RunControl::Continue | RunControl::Quit(_) => {}
            RunControl::Drop => return Ok(()),
        }
        if run.is_over() {
            if run.needs_final_step() {
                run.step(Duration::ZERO)?;
                run.update();
            }
            return Ok(());
        }
    }
}

/// No turn waits longer, so that a wish to stop is soon noticed.
const MAX_STEP: Duration = Duration::from_millis(100);
/// As good as for ever.
pub(crate) const UNLIMITED_STEP: Duration = Duration::from_secs(3600);

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
        fn update(&mut self) {
            self.over |= self.steps >= 10;
        }
        fn is_over(&self) -> bool {
            self.over
        }
        fn needs_final_step(&self) -> bool {
            self.last_words
        }
        fn quit(&mut self, reason: &str) {
            self.quits.push(reason.to_owned());
            self.over = self.ends_when_asked;
        }
    }

    fn run(mut script: Script, wish: impl Fn(u32) -> RunControl) -> Script {
        run_to_end(&mut script, |run| Ok::<_, DriveError>(wish(run.steps))).expect("no step fails");
        script
    }

    #[test]
    fn quit_is_requested_once_and_the_run_completes() {
        let ended = run(Script::default(), |_| RunControl::Quit("why"));
        assert_eq!((ended.steps, ended.quits), (10, vec!["why".to_owned()]));
    }

    #[test]
    fn final_messages_take_one_more_step() {
        let script = Script { last_words: true, ends_when_asked: true, ..Script::default() };
        let ended =
            run(script, |steps| if steps == 3 { RunControl::Quit("why") } else { RunControl::Continue });
        assert_eq!(ended.steps, 4);
    }

    #[test]
    fn dropped_run_takes_no_further_step() {
        assert_eq!(
            run(Script::default(), |steps| if steps == 3 { RunControl::Drop } else { RunControl::Continue })
                .steps,
            3
        );
    }
}
