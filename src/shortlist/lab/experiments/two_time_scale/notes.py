"""Sentences that every two-time-scale result has: the protocol, the choices, and errata of the paper."""

PROTOCOL = (
    "Every test event is predicted from all earlier events of its user and then applied; training, validation and "
    "test events follow each other in time (70 / 10 / 20 %). raw: among all items; excl: without consumed ones; "
    "sampled: against 499 uniform negatives, for 20,000 random events; expected: the mean of sampled over all "
    "draws. Intervals are bootstraps over users, those of all seeds together. new: users without training events; "
    "inactive and active: T <= t* and T > t* training events, with t* = 100 on MovieLens-1M and 50 in the worlds. "
    "All systems have item vectors of the same width (twice that with features, which are compared among "
    "themselves), the same largest number of epochs and patience, and stop early by the same validation events: "
    "the first 20 of random users, about 8,000. All but the factorisation are trained with a softmax over all "
    "items, and in the world of 10^7 events and that of a tenth over a corrected sample of 1,024 items. Each "
    "learning rate is the best of three on these validation events with seed 0; variants of two time scales without "
    "trials of their own have that of the "
    "nearest one. Variants share a first stage, which is the factorisation of the table (the product stops it by "
    "likelihood), and, where it does not depend on them, the recurrence of all users; its seconds count for each. "
    "MovieTweetings and Wikipedia edits, which the specification names too, were not available."
)
WORLDS = (
    "The full world has 100,000 users, 10,000 items and 10^7 events; test events are those of 5,000 random users, "
    "and learning rates were chosen in a world of a tenth of its users. 10 % of users join in the second half of "
    "the log, so that there are new ones."
)
ERRATA = (
    "Errata of the paper: Recall@10 of the proposed model on Taobao is 0.844 in its table 1 and 0.894 in its "
    "table 3, and the improvement row agrees with 0.844. The optimal threshold is ceil(Q/V) - 1; a factor "
    "1/zeta(alpha, 1) and a step 1/(c j) are missing in print, and the regulariser is (c/2)|phi|^2. On lastfm-1K "
    "nearly all users are active. Its first stage is biconvex, not convex. It reports no seeds and no intervals."
)
