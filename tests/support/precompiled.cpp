// Carries the precompiled headers that all tests share: GoogleTest is most of what they compile.
