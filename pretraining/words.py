"""English words that the tokenizer knows whole, and that stand in for names and fillers in pretraining text.

Beside everyday words, those of beliefs and evidence, of short programs, and of talks with a user are there, so that
tasks of these kinds need no other tokenizer.
"""

from __future__ import annotations

from gce.domain.tasks.scheduling.alphabets import CODE_WORDS, LOWER

__all__ = ["FILLERS", "NAMES", "WORDS"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES: tuple[str, ...] = _words(
    """
    Roof Wall Floor Door Window Paint Cable Pipe Brick Stone Glass Steel Wood Frame Gate Fence Path Road Bridge
    Tower Garden Tree Field Barn Shed Yard Dock Ship Boat Train Track Truck Wheel Engine Motor Pump Valve Tank
    Boiler Stove Lamp Clock Desk Chair Table Shelf Book Page Paper Print Cover Map Draft Sketch Model Mould
    Cast Drill Saw Weld Bolt Screw Nail Hammer Sand Clay Lime Tile Carpet Curtain Cloth Thread Wool Silk Coat Boot
    Hat Glove Bread Flour Dough Butter Milk Cheese Soup Salad Fruit Apple Pear Plum Cherry Lemon Onion Carrot Bean
    Rice Corn Wheat Oats Honey Sugar Salt Tea Coffee River Lake Hill Valley Cave Cliff Beach Island Forest Meadow
    Harvest Winter Summer Spring Storm Cloud Rain Snow Ice Wind Sun Moon Star Planet Rocket Signal Radio Mirror
    Camera Film Stage Dance Song Drum Violin Piano Flute Choir Letter Stamp Parcel Market Shop Bank School Clinic
    Museum Castle Chapel Hotel Kitchen Cellar Attic Hall Office Studio Factory Mill Mine Quarry Harbor Canal Dam
    Well Fountain Statue Park Zoo Lion Tiger Bear Wolf Fox Hare Deer Horse Sheep Goat Cow Duck Goose Hen Owl Eagle
    Crow Robin Trout Salmon Crab Bee Ant wash dry cut sew bake boil mix stir pour pack load ship dig fill lift carry
    clean sweep polish test measure sign seal mail sort scan copy edit proof bind fold press iron dye spin
    weave knit stitch trim glue solder wire plug tune oil grease paint prime plaster lay pave plant water prune pick
    peel chop grind roast fry air under read along might sound saw something thought few always looked show large
    often asked want important food children land boy animals enough took four above began almost live earth need
    far year mother father let night following picture being second eyes story boys since white ever near better
    means knew told miles sun ways thing heard room sea top turned point play toward five using car stop early late
    day week month finish limits unit probability likely evidence source sources reliable reliability election votes
    voters party percent belief false forecast forecaster resolve resolved question options prior posterior update
    updates outcome event certain confidence report reports claims urn ball red counts win wins lose tomorrow wet
    warm cold base rate hypothesis data argument opinion agree disagree debate reason think thinking final print
    float reversed abs pop function returns integer positive negative zero element elements keys result tests case
    program programs python error patient client request requests prefer preference budget cost flight restaurant
    tool call sorry okay ask wants confirm cancel refund address phone email account secret password instructions
    attack safe unsafe refuse agent state action move south east west door
    """
)
"""Names of jobs beside capital letters, each one token."""

WORDS: tuple[str, ...] = _words(
    """
    the of and to in is that it was for on are as with his they at be this from have or by one had not but what all
    were when we there can an your which their said if do will each about how up out them then she many some so
    these would other into has more her two like him see time could no make than first been its who now people my
    made over did down only way find use may long little very after words called just where most know three before
    also around another came come work must because does part even place well such here take why things help put
    years different away again off went old number great tell men say small every found still between name should
    home big give air line set own under read last never us left end along while might next sound below saw
    something thought both few those always looked show large often together asked house world going want important
    until form food keep children feet land side without boy once animals life enough took four head above kind
    began almost live got earth need far hand high year mother light parts country father let night following
    picture being study second eyes soon times story boys since white days ever paper hard near sentence better best
    across during today others however sure means knew try told young miles sun ways thing whole hear example heard
    several change answer room sea against top turned learn point city play toward five using himself usually money
    seen car morning given busy ready open close start starts begin begins stop wait waits free early late latest
    earliest hour hours minute day week month job jobs task tasks piece pieces step steps order sequence plan
    schedule deadline deadlines due finish finished done over ended ends limit limits capacity available total units
    unit hold holds held running planned later rest needs takes left probability likely unlikely evidence source
    sources reliable reliability election poll votes voters candidate party percent chance believe belief beliefs
    true false forecast forecaster resolve resolved question option options prior posterior update updates outcome
    event uncertain certain certainty confident confidence calibrated report reports says claims urn ball balls red
    blue green black drawn draw drawn sample counts counted count win wins lose weather tomorrow yesterday dry wet
    warm cold base rate hypothesis data argument against opinion user expert agree disagree judge debate verdict
    reason reasoning think thinking step final FINAL None True False def return lambda for if elif else while import
    print list dict tuple set int float str bool len range sum min max sorted reversed enumerate zip map filter any
    all abs append extend pop insert index input output function functions value values argument returns string
    strings integer number numbers even odd positive negative zero length element elements item items key keys
    result results test tests case cases code program programs write written python class self error patient doctor
    customer client request requests prefer preference budget price cost cheap expensive book booking flight hotel
    restaurant tool call calls please thanks sorry hello yes okay tell ask asked ask want wants need message reply
    turn confirm cancel change refund address phone email account secret password ignore instructions system attack
    safe unsafe refuse agent node graph state action move north south east west key door lock open grid
    """
)

FILLERS: tuple[str, ...] = tuple(dict.fromkeys((*WORDS, *LOWER, *CODE_WORDS)))
"""Words that stand anywhere in a text without meaning anything for the problem. Small letters and code words are among
them, and are never names of jobs: tasks name jobs so, to measure a shift."""
