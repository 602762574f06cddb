// Carries the precompiled headers of all tests, mostly GoogleTest.
