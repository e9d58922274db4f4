//! Executors with real bytes, in memory and over files.

#[macro_use]
mod arrays;
mod disks;
mod loop_device;
mod mirror;
mod moving_array;
mod probe;
mod scribe;

mod buffer;
mod files_ahead;
mod files_back_ends;
mod files_bad_page_lists;
mod files_bad_pages;
mod files_commits;
mod files_copies;
mod files_direct_state;
mod files_disks;
mod files_event_counts;
mod files_failed_syncs;
mod files_flipped_bits;
mod files_hangs;
mod files_identity;
mod files_life;
mod files_losses;
mod files_lost_rows;
mod files_marks;
mod files_merging;
mod files_moved_starts;
mod files_moves;
mod files_place;
mod files_replacements;
mod files_rotten_caches;
mod files_scrubs;
mod files_service;
mod files_state;
mod files_successors;
mod files_threads;
mod files_timeouts;
mod filled_array;
mod memory;
mod merging;
mod nvram;
mod recording;
mod ring;
mod three_executors;
