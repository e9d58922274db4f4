//! Many simulations at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `work` to each item and returns the results in the items' order. The current rayon pool's threads
/// limit how many run at a time.
///
/// # Errors
/// Returns that of the first item in order that fails; items after it may not have been tried.
pub(crate) fn map<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    map_at_a_time(rayon::current_num_threads(), items, work)
}

/// The same, so many at a time.
///
/// Threads of their own, because a simulation waits for a pool of its own: a rayon worker that
/// waits begins the next item meanwhile, inside the one that waits, and all their devices would be
/// in memory at once.
///
/// # Errors
/// Returns that of the first item in order that fails; items after it may not have been tried.
pub(crate) fn map_at_a_time<T: Sync, R: Send, E: Send>(
    at_a_time: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let done: Vec<Mutex<Option<Result<R, E>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= items.len() || index > failed.load(Ordering::Relaxed) {
                return;
            }
            let result = work(&items[index]);
            if result.is_err() {
                failed.fetch_min(index, Ordering::Relaxed);
            }
            *done[index].lock().expect("nobody panics with it") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(items.len()) {
            scope.spawn(worker);
        }
    });
    // Items are begun in order, so that nothing is missing before the first failure.
    done.into_iter().map_while(|slot| slot.into_inner().expect("nobody panics with it")).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_in_order_and_the_first_error() {
        let items: Vec<u32> = (0..1000).collect();
        assert_eq!(map(&items, |x| Ok::<_, ()>(x * 2)), Ok(items.iter().map(|x| x * 2).collect()));
        assert_eq!(map(&items, |&x| if x % 7 == 3 { Err(x) } else { Ok(x) }), Err(3));
        assert_eq!(map(&[], |&x: &u32| Ok::<_, ()>(x)), Ok(vec![]));
    }
}
