"""Film titles for simulated items by category; no noun is in two categories."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError


@dataclass(frozen=True)
class Theme:
    """A category: its name, its nouns and the endings of its longer titles."""

    name: str
    nouns: tuple[str, ...]
    ends: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _theme(name: str, nouns: str, ends: str) -> Theme:
    return Theme(name, _words(nouns), tuple(ends.split(", ")))


ADJECTIVES = _words(
    "Quiet Last Hidden Golden Broken Silent Crooked Distant Faithful Forgotten Gentle Honest Hollow Iron "
    "Lonely Lost Lucky Midnight Morning Narrow Old Patient Proud Restless Second Secret Seventh Silver "
    "Simple Slow Small Stubborn Summer Tender Unlikely Velvet Wandering White Wild Winter"
)

THEMES = (
    _theme(
        "sea stories",
        "Harbour Captain Lighthouse Sailor Tide Anchor Schooner Mermaid Whaler Lagoon Shipwreck Pearl Mast "
        "Reef",
        "of the Atlantic, at High Water, off the Cape, and the Storm, under Full Sail, on the Seabed, of "
        "the Seven Seas, from the Deep, beyond the Pier",
    ),
    _theme(
        "space",
        "Planet Astronaut Comet Orbit Rocket Nebula Moonbase Starship Satellite Galaxy Eclipse Cosmonaut "
        "Asteroid Crater",
        "of Saturn, in Zero Gravity, beyond the Stars, on Mars, at Light Speed, from Andromeda, of the "
        "Outer Ring, and the Black Hole, after Touchdown",
    ),
    _theme(
        "westerns",
        "Sheriff Saloon Outlaw Cowboy Ranch Stagecoach Saddle Prairie Gunslinger Canyon Rodeo Posse Mustang "
        "Spur",
        "of Dodge County, at High Noon, on the Rio Grande, and the Bounty, west of Abilene, with No Name, "
        "of the Frontier, under Big Skies, at the Last Corral",
    ),
    _theme(
        "detectives",
        "Inspector Clue Alibi Suspect Sleuth Witness Fingerprint Motive Informer Constable Magnifier Riddle "
        "Culprit Footprint",
        "in the Library, on Baker Street, and the Body, at the Vicarage, of Scotland Yard, without a Trace, "
        "behind the Curtain, on the Night Shift, of the Manor",
    ),
    _theme(
        "ghost stories",
        "Ghost Phantom Spectre Haunting Crypt Seance Poltergeist Apparition Tombstone Banshee Coffin Shadow "
        "Wraith Spirit",
        "in the Attic, of Hollow House, at the Stroke of Twelve, from the Grave, behind the Mirror, of the "
        "Old Churchyard, on the Stairs, that Never Left, in the Fog",
    ),
    _theme(
        "kitchens",
        "Chef Skillet Recipe Baker Soup Oven Banquet Pastry Waiter Spoon Cellar Truffle Lemon Bistro",
        "of Lyon, at the Corner Table, with Extra Butter, and the Critic, for Two, on a Low Flame, of the "
        "Grand Hotel, before Dessert, in the Pantry",
    ),
    _theme(
        "mountains",
        "Summit Climber Glacier Ridge Avalanche Sherpa Basecamp Crevasse Alpinist Chalet Precipice Rope "
        "Peak Chamois",
        "of the Eiger, above the Clouds, on the North Face, without Oxygen, of the High Pass, at First "
        "Light, below Zero, in Thin Air, of the Dolomites",
    ),
    _theme(
        "railways",
        "Train Conductor Platform Locomotive Stationmaster Carriage Junction Signalman Sleeper Timetable "
        "Viaduct Fireman Passenger Depot",
        "to Vladivostok, on Track Nine, of the Night Express, at the Terminus, on the Branch Line, across "
        "the Border, with One Suitcase, before Departure, of the Great Northern",
    ),
    _theme(
        "kings and queens",
        "King Queen Throne Crown Duchess Knight Regent Castle Courtier Prince Banner Herald Sceptre "
        "Coronation",
        "of Navarre, at Court, in Exile, and the Pretender, of the Red Keep, by Birthright, of Three "
        "Kingdoms, without an Heir, at the Tournament",
    ),
    _theme(
        "spies",
        "Spy Agent Cipher Courier Dossier Mole Safehouse Defector Microfilm Passport Handler Codebook "
        "Saboteur Embassy",
        "in Berlin, from Moscow, on Her Service, and the Double Game, at Checkpoint Four, of Section Nine, "
        "in Plain Sight, under Cover, with Two Names",
    ),
    _theme(
        "robots",
        "Robot Android Machine Circuit Cyborg Algorithm Automaton Processor Drone Hologram Antenna Program "
        "Replica Gear",
        "of Sector Five, with a Heart, that Dreamed, version Two, of the Assembly Line, at Full Power, and "
        "the Engineer, after the Reboot, in the Mainframe",
    ),
    _theme(
        "dragons and magic",
        "Dragon Wizard Spell Unicorn Sorceress Elf Amulet Griffin Potion Enchanter Goblin Wand Oracle Dwarf",
        "of Ravenmoor, and the Ring, of the Elder Wood, beyond the Portal, of the Ninth Realm, under the "
        "Curse, in the Tower, of Ancient Blood, at the Gate of Fire",
    ),
    _theme(
        "music",
        "Violin Pianist Melody Orchestra Drummer Trumpet Soprano Guitar Overture Chorus Cello Ballad "
        "Encore Bandleader",
        "in D Minor, at the Blue Note, of the Philharmonic, on Vinyl, for Left Hand, after the Concert, of "
        "New Orleans, in Four Movements, on Tour",
    ),
    _theme(
        "football",
        "Goalkeeper Striker Penalty Stadium Referee Midfielder Trainer Kickoff Substitute Trophy Defender "
        "Derby Whistle Dribble",
        "of the Second Division, in Extra Time, at Wembley, from the Bench, in the Cup Final, away from "
        "Home, of Row Nine, in Injury Time, with the Worn Boots",
    ),
    _theme(
        "war",
        "Soldier Trench Battalion Sergeant Bunker Regiment Ceasefire Medal Grenadier Front Deserter Bugle "
        "Convoy Brigade",
        "of the Somme, behind the Lines, at Dawn, of Company B, on Hill Nineteen, before the Armistice, "
        "without a Flag, of the Winter Siege, on the Eastern Road",
    ),
    _theme(
        "love stories",
        "Kiss Sweetheart Bride Valentine Letter Honeymoon Lover Waltz Proposal Rendezvous Bouquet Heartbeat "
        "Wedding Promise",
        "in Paris, for Eleanor, in the Rain, by Candlelight, at First Sight, of Two Strangers, until "
        "September, on the Balcony, after All These Years",
    ),
    _theme(
        "school days",
        "Classroom Teacher Pupil Homework Headmaster Blackboard Exam Schoolyard Detention Graduate "
        "Classmate Locker Satchel Recess",
        "of Room Twelve, on the Last Bench, at Greenfield High, before the Bell, of the Debating Club, in "
        "Third Grade, on Prom Night, after the Holidays, with Bad Marks",
    ),
    _theme(
        "gardens",
        "Garden Gardener Rose Orchard Greenhouse Meadow Tulip Hedge Orchid Beekeeper Ivy Lavender "
        "Wheelbarrow Magnolia",
        "behind the Wall, in Full Bloom, of Kew, after the Frost, and the Snail, of Plot Seventeen, in May, "
        "under the Pear Tree, by the Pond",
    ),
    _theme(
        "cats and dogs",
        "Kitten Puppy Terrier Tomcat Hound Whisker Spaniel Tabby Poodle Paw Collie Siamese Mongrel Dachshund",
        "of Maple Lane, on a Leash, with Nine Lives, and the Postman, on the Sofa, at the Shelter, without "
        "a Collar, who Came Home, and the Missing Bone",
    ),
    _theme(
        "hospitals",
        "Surgeon Nurse Ward Diagnosis Scalpel Bandage Stethoscope Ambulance Clinic Pulse Midwife Pharmacist "
        "Prescription Paramedic",
        "of Saint Luke's, on Night Duty, in Room Eleven, after the Operation, in the Emergency Room, of the "
        "Third Floor, with Steady Hands, on Call, before the Anaesthetic",
    ),
    _theme(
        "heists",
        "Heist Safecracker Vault Getaway Diamond Forger Burglar Loot Blueprint Hideout Pickpocket Bankroll "
        "Alarm Mastermind",
        "of the Casino, for Eleven Thieves, in Broad Daylight, at Gunpoint, of the Century, under the Bank, "
        "with the Inside Man, and the Fake Rembrandt, without a Plan",
    ),
    _theme(
        "deserts",
        "Caravan Oasis Dune Camel Mirage Nomad Sandstorm Scorpion Bedouin Dromedary Well Sirocco Bazaar "
        "Cactus",
        "of the Sahara, under the Burning Sun, to Timbuktu, without Water, of the Empty Quarter, at the "
        "Last Oasis, on Shifting Sands, after the Simoom, of Marrakesh",
    ),
    _theme(
        "polar journeys",
        "Iceberg Igloo Sledge Penguin Icebreaker Husky Explorer Blizzard Walrus Snowfield Aurora Fjord "
        "Narwhal Trapper",
        "of Spitsbergen, at Ninety South, on Pack Ice, under the Northern Lights, with Frozen Boots, of the "
        "Ross Sea, through the Long Night, to the Pole, of Baffin Bay",
    ),
    _theme(
        "courtrooms",
        "Juror Verdict Lawyer Judge Testimony Defendant Prosecutor Gavel Bailiff Appeal Acquittal Objection "
        "Oath Lawsuit",
        "on Trial, of the Supreme Bench, beyond Reasonable Doubt, for the Defence, of Room Six, under "
        "Cross-Examination, in Contempt, against the State, without Bail",
    ),
)


def make_titles(categories: NDArray[np.int64], seed: int) -> list[str]:
    """A distinct title for every item, short ones first; `categories` [I] are rows of `THEMES`."""
    titles = [""] * len(categories)
    for row in np.unique(categories):
        names = _names(THEMES[row], np.random.default_rng([seed, int(row)]))
        for item in np.flatnonzero(categories == row):
            titles[item] = next(names)
    return titles


def category_names(n_categories: int) -> list[str]:
    """The names of the first `n_categories` categories."""
    if not 1 <= n_categories <= len(THEMES):
        raise ConfigError(f"world: n_categories must lie between 1 and {len(THEMES)}, got {n_categories!r}")
    return [theme.name for theme in THEMES[:n_categories]]


def _names(theme: Theme, rng: np.random.Generator) -> Iterator[str]:
    """An endless sequence of titles of one category; after all combinations, a part number is added."""
    short = [f"The {adjective} {noun}" for adjective in ADJECTIVES for noun in theme.nouns]
    ended = [f"The {noun} {end}" for noun in theme.nouns for end in theme.ends]
    long = [f"{title} {end}" for title in short for end in theme.ends]
    names = [group[at] for group in (short, ended, long) for at in rng.permutation(len(group))]
    yield from names
    part = 2
    while True:
        yield from (f"{name}, part {part}" for name in names)
        part += 1
