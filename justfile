# The steps of the CI, one recipe each. What they do is in `.ci/run`, which does not need `just`.

# List the recipes.
default:
    @just --list --unsorted

# While you work: format, clippy and the tests that take seconds.
quick:
    .ci/run quick

# Everything, as the CI runs it.
ci:
    .ci/run

# Install what is missing.
tools:
    .ci/run tools

# Check the formatting.
format:
    .ci/run format

# Clippy, on every target.
lint:
    .ci/run lint

# Build the documentation, public and private.
docs:
    .ci/run docs

# Model-check the protocols between threads.
loom:
    .ci/run loom

# Run every example, as short as it gets.
examples:
    .ci/run examples

# Run every bench once.
benches:
    .ci/run benches

# Check that the comparisons with other libraries build.
compare:
    .ci/run compare

# Build what would be published.
package:
    .ci/run package

# Check the build for other systems.
platforms:
    .ci/nightly platforms

# What is slow, and rarely fails.
nightly:
    .ci/nightly

# Run every test.
test:
    .ci/run test
