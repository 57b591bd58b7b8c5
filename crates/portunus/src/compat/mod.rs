//! Front doors: the arguments and files of other programs, translated into the one `Config`. Nothing else in the program knows of them.

pub mod sillyproxy;
